/** Runs the Workers of pages with wrangler's test harness, with the sources instead of the installed package. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll } from "vitest";
import { createTestHarness, type TestHarness } from "wrangler";

export interface PageWorker {
  /** The contents of the Worker's files by path, among them `wrangler.toml`. */
  readonly files: Readonly<Record<string, string>>;
  /** The packages that the Worker imports besides Headgate. */
  readonly packages?: readonly string[];
  readonly secrets?: Readonly<Record<string, string>>;
  /** Adds further files to the folder of the Worker. */
  readonly prepare?: (folder: string) => Promise<unknown>;
}

/** The code imports the sources instead of the installed package. */
export const installed = (code: string): string =>
  code.replaceAll(/"headgate\/(\w+)"/g, (_, name: string) => JSON.stringify(resolve(`src/sdk/package/${name}.ts`)));

/** Call this once in a test file, outside of `describe`. The returned function starts a Worker. */
export function pageWorkers(): (worker: PageWorker) => Promise<TestHarness> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-page-worker-"));
  const servers: TestHarness[] = [];

  afterAll(async () => {
    await Promise.all(servers.map((server) => server.close()));
    rmSync(folder, { recursive: true });
  });

  return async ({ files, packages = [], secrets = {}, prepare }) => {
    const own = join(folder, String(servers.length));
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(own, path)), { recursive: true });
      writeFileSync(join(own, path), path.endsWith(".ts") ? installed(text) : text);
    }
    for (const name of packages) linkPackage(own, name);
    await prepare?.(own);
    const server = createTestHarness({
      workers: [{ configPath: join(own, "wrangler.toml"), secrets: { KEY_SECRET: crypto.randomUUID(), ...secrets } }],
    });
    servers.push(server);
    await server.listen();
    return server;
  };
}

/** Links a package of the repository or of test/tools into a folder. */
export function linkPackage(folder: string, name: string): void {
  const link = join(folder, "node_modules", name);
  const [found] = ["node_modules", "test/tools/node_modules"].map((path) => resolve(path, name)).filter(existsSync);
  if (found === undefined) throw new Error(`${name} is not installed`);
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(found, link);
}
