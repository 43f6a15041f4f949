/** The entry point of the static playground page. */
import { render } from "preact";
import "../app/console.css";
import { followLinks } from "../app/shell/route.ts";
import { PlaygroundView } from "./view.tsx";

followLinks();
const root = document.querySelector("#playground");
if (root !== null) {
  render(
    <main>
      <PlaygroundView />
    </main>,
    root,
  );
}
