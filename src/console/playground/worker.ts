/** The web worker of the playground. */
import { requestHandler, type ScenarioRun } from "./model/serve.ts";

const handle = requestHandler((answer, transfer) => postMessage(answer, { transfer }));
addEventListener("message", ({ data }: MessageEvent<ScenarioRun>) => handle(data));
