/** Serves the configurations of a page with `npm start` in a copy of the project. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkout, freePort, printed, type Run, started, stopped } from "../system/checkout.ts";
import type { RecipeOrigin } from "../system/recipe-origin.ts";
import { withBlock } from "./configuration-blocks.ts";
import type { Server } from "./session.ts";

/** Edits wrangler.toml while Headgate runs, as a reader does, so that the counters are kept. */
export async function npmStartServer(origin: RecipeOrigin): Promise<Server> {
  const { folder, remove } = checkout();
  const port = await freePort();
  const shipped = readFileSync("wrangler.toml", "utf8");
  let run: Run | null = null;
  return {
    folder,
    port,
    serve: async (block) => {
      const text = (block?.text ?? "")
        .replace(/^ORIGIN = .*$/m, `ORIGIN = "${origin.url}"`)
        .replace(/^JWT_JWKS_URL = .*$/m, `JWT_JWKS_URL = "${origin.keysUrl}"`);
      const printedBefore = run?.output().length ?? 0;
      writeFileSync(join(folder, "wrangler.toml"), withBlock(shipped, text));
      if (run === null) run = await started(folder, port);
      else await printed(run, "In effect now:", printedBefore);
    },
    close: async () => {
      if (run !== null) await stopped(run);
      remove();
    },
  };
}
