/** The entry point of the static playground page. */
// oxlint-disable-next-line import/no-unassigned-import -- runs before the view loads uPlot
import "../app/parts/valid-language.ts";
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
