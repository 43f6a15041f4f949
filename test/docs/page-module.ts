/** Runs the code of pages in Node, with the sources instead of the installed package. */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { afterAll } from "vitest";

const subpaths = ["client", "hono", "limiter", "object", "strategies", "test"];

/**
 * Call this once in a test file, outside of `describe`. The returned function bundles a module for Node, and returns its
 * file.
 */
export function pageBundles(): (code: string) => Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-page-module-"));
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let count = 0;
  return async (code) => {
    const file = join(folder, `module-${(count += 1)}.test.mjs`);
    await build({
      stdin: { contents: code, loader: "ts", resolveDir: folder },
      outfile: file,
      bundle: true,
      platform: "node",
      format: "esm",
      external: ["cloudflare:*"],
      alias: Object.fromEntries(subpaths.map((name) => [`headgate/${name}`, resolve(`src/sdk/package/${name}.ts`)])),
    });
    return file;
  };
}

/** As `pageBundles`, but the returned function imports the module. */
export function pageModules(): <Exports>(code: string) => Promise<Exports> {
  const bundled = pageBundles();
  return async <Exports>(code: string) => (await import(pathToFileURL(await bundled(code)).href)) as Exports;
}
