/** The web worker of the playground. */
import type { WorkerRequest } from "./model/scenario.ts";
import { requestHandler } from "./model/serve.ts";

const handle = requestHandler((answer, transfer) => postMessage(answer, { transfer }));
addEventListener("message", ({ data }: MessageEvent<WorkerRequest>) => handle(data));
