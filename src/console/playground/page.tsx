/** The entry point of the static playground page. */
import { render } from "preact";
import "../console.css";
import { followLinks } from "../shell/route.ts";
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
