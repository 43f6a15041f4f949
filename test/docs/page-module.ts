/** Runs the code of pages in Node, with the sources instead of the installed package. */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { afterAll } from "vitest";

/** Call this once in a test file, outside of `describe`. The returned function bundles and imports a module. */
export function pageModules(): <Exports>(code: string) => Promise<Exports> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-page-module-"));
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const subpaths = ["client", "hono", "limiter", "test"];
  let count = 0;
  return async <Exports>(code: string) => {
    const file = join(folder, `module-${(count += 1)}.mjs`);
    await build({
      stdin: { contents: code, loader: "ts", resolveDir: folder },
      outfile: file,
      bundle: true,
      platform: "node",
      format: "esm",
      external: ["cloudflare:*"],
      alias: Object.fromEntries(subpaths.map((name) => [`headgate/${name}`, resolve(`src/sdk/package/${name}.ts`)])),
    });
    return (await import(pathToFileURL(file).href)) as Exports;
  };
}
