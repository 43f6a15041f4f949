/** Serves the configurations of a page by running the bundle on workerd, which starts faster than `npm start`. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { demoLimits } from "../../src/policy/vars/config.ts";
import { hasLimits } from "../../src/policy/vars/policies.ts";
import { freePort } from "../system/checkout.ts";
import { localVariables, type RecipeOrigin } from "../system/recipe-origin.ts";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";
import { readConfiguration } from "./configuration-blocks.ts";
import type { Server } from "./session.ts";

/** @param bundledIn the folder that contains the bundle */
export async function bundleServer(bundledIn: string, origin: RecipeOrigin, demoOriginUrl: string): Promise<Server> {
  const root = mkdtempSync(join(tmpdir(), "headgate-page-"));
  const port = await freePort();
  const secrets = {
    KEY_SECRET: crypto.randomUUID(),
    CHECK_TOKENS: crypto.randomUUID(),
    ADMIN_TOKENS: crypto.randomUUID(),
  };
  const lines = Object.entries(secrets).map(([name, value]) => `${name}="${value}"\n`);
  writeFileSync(join(root, ".dev.vars"), lines.join(""));
  let workerd: Workerd | null = null;
  let count = 0;
  return {
    folder: root,
    port,
    serve: async (block) => {
      await workerd?.close();
      const vars = block === null ? {} : readConfiguration(block).vars;
      // Each configuration gets its own folder, so that it starts with empty counters.
      const folder = join(root, `.headgate-${count++}`);
      workerd = await startWorkerd(
        folder,
        {
          ...(!hasLimits(vars) && demoLimits),
          ...secrets,
          ...localVariables(vars, origin),
          ...(vars["ORIGIN"] === undefined && { ORIGIN: demoOriginUrl }),
        },
        { bundledIn, port, hasControlPlane: true },
      );
    },
    close: async () => {
      await workerd?.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
