/** The console's entry point. */
import { render } from "preact";
import "./console.css";
import { App, loadFirstView } from "./shell/app.tsx";
import { followLinks } from "./shell/route.ts";
import { startSession } from "./shell/session.ts";

followLinks();
loadFirstView();
void startSession();
const root = document.querySelector("#console");
if (root !== null) render(<App />, root);
