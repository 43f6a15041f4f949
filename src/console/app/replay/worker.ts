/** The web worker that keeps samples of traffic and replays them. */
import { adviseOn, measureOn } from "./advise-on.ts";
import { compare } from "./compare.ts";
import { readSamples } from "./load-samples.ts";
import type { ReplayRequest } from "./messages.ts";
import { taskHandler } from "./tasks.ts";

const handle = taskHandler(
  {
    load: readSamples,
    replays: { compare, advise: adviseOn, candidate: measureOn },
  },
  (answer) => postMessage(answer),
);
addEventListener("message", ({ data }: MessageEvent<ReplayRequest>) => handle(data));
