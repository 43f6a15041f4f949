/** The console's entry point. */
// oxlint-disable-next-line import/no-unassigned-import -- runs before a view loads uPlot
import "./parts/valid-language.ts";
import { render } from "preact";
import "./console.css";
import { token } from "./api/client.ts";
import { App, loadFirstView } from "./shell/app.tsx";
import { followLinks, isPublicView } from "./shell/route.ts";
import { followTokenLinks, startSession } from "./shell/session.ts";
import { showToast } from "./shell/toasts.tsx";

followLinks(() => token.value !== null);
loadFirstView();
followTokenLinks((text) => showToast({ text, kind: "problem" }));
void startSession({ isPublic: isPublicView.value });
const root = document.querySelector("#console");
if (root !== null) render(<App />, root);
