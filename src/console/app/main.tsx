/** The console's entry point. */
// oxlint-disable-next-line import/no-unassigned-import -- runs before a view loads uPlot
import "./parts/valid-language.ts";
import { render } from "preact";
import "./console.css";
import { App, loadFirstView } from "./shell/app.tsx";
import { followLinks, isPublicView } from "./shell/route.ts";
import { startSession } from "./shell/session.ts";
import { followTokenLinks } from "./shell/token-link.ts";

followLinks();
loadFirstView();
followTokenLinks();
void startSession({ isPublic: isPublicView.value });
const root = document.querySelector("#console");
if (root !== null) render(<App />, root);
