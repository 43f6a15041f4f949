/** A copy of the project, in which the scripts of pages without a server run. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkout } from "../system/checkout.ts";
import type { Server } from "./session.ts";

export function projectFolder(): Server {
  const { folder, remove } = checkout();
  writeFileSync(join(folder, ".dev.vars"), "");
  return { folder, port: 0, serve: async () => undefined, close: async () => remove() };
}
