/** An app in its own folder outside the repository, with the packed package installed. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { inject } from "vitest";

const run = promisify(execFile);

export interface FreshApp {
  readonly folder: string;
  /** Compiles the app and returns the errors. */
  readonly typeErrors: (compiler: Compiler, types: readonly string[]) => Promise<string>;
  /** Builds the Worker of `wrangler.toml`, and returns the options with which wrangler's test harness runs it. */
  readonly builtBy: (tool: Tool) => Promise<BuiltWorker>;
  readonly remove: () => void;
}

interface BuiltWorker {
  readonly configPath: string;
  readonly prebuiltWorkerDir?: string;
}

export const tools = ["wrangler", "Vite"] as const;
export type Tool = (typeof tools)[number];

export interface Compiler {
  readonly version: 5 | 7;
  readonly module: "nodenext" | "esnext";
  readonly moduleResolution: "nodenext" | "bundler";
}

export const compilers: readonly Compiler[] = ([5, 7] as const).flatMap((version) => [
  { version, module: "nodenext", moduleResolution: "nodenext" },
  { version, module: "esnext", moduleResolution: "bundler" },
]);

const binaries = {
  5: "test/tools/node_modules/typescript-5/bin/tsc",
  7: "node_modules/typescript/bin/tsc",
} as const;

/**
 * The `timeout` of policies. After a shorter timeout, a request would be allowed when its object is late, as on a busy
 * machine.
 */
export const patient = "30s";

/** The configuration that `npm create vite` and Cloudflare's guide write. */
const viteConfiguration = `import { defineConfig } from "vite";
import { cloudflare } from "@cloudflare/vite-plugin";
export default defineConfig({ plugins: [cloudflare()] });
`;

/**
 * @param files the contents of the app's files, by path
 * @param linked the packages that the app uses besides Headgate, taken from the repository, so that no test needs a
 * network
 */
export async function freshApp(files: Readonly<Record<string, string>>, linked: readonly string[]): Promise<FreshApp> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "headgate-app-")));
  const all = {
    "package.json": '{ "name": "app", "private": true, "type": "module" }',
    "vite.config.js": viteConfiguration,
    ...files,
  };
  for (const [path, text] of Object.entries(all)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const words = ["install", "--offline", "--no-audit", "--no-fund", inject("tarball")];
  await run("npm", words, { cwd: folder });
  // npm removes packages that it has not installed, so the links are made afterwards.
  for (const name of linked) {
    const link = join(folder, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(resolve("node_modules", name), link);
  }
  return {
    folder,
    typeErrors: (compiler, types) => typeErrors(folder, compiler, types),
    builtBy: (tool) => (tool === "Vite" ? builtByVite(folder) : builtByWrangler(folder)),
    remove: () => rmSync(folder, { recursive: true }),
  };
}

/** Also checks declarations, because `skipLibCheck` is off. */
async function typeErrors(
  folder: string,
  { version, module, moduleResolution }: Compiler,
  types: readonly string[],
): Promise<string> {
  const configuration = `tsconfig.${version}.${moduleResolution}.json`;
  const compilerOptions = {
    target: "es2024",
    lib: ["es2024"],
    module,
    moduleResolution,
    types,
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
  };
  writeFileSync(join(folder, configuration), JSON.stringify({ compilerOptions, include: ["src/**/*.ts"] }));
  return outputOf(resolve(binaries[version]), ["-p", configuration], folder);
}

/** The output of a program if it fails; "" if it succeeds. */
async function outputOf(program: string, words: readonly string[], cwd: string): Promise<string> {
  try {
    await run(process.execPath, [program, ...words], { cwd });
    return "";
  } catch (error) {
    return (error as { readonly stdout: string }).stdout || String(error);
  }
}

async function builtByWrangler(folder: string): Promise<BuiltWorker> {
  const wrangler = resolve("node_modules/wrangler/bin/wrangler.js");
  const prebuiltWorkerDir = join(folder, "dist/wrangler");
  const words = [wrangler, "deploy", "--dry-run", "--outdir", prebuiltWorkerDir];
  await run(process.execPath, words, { cwd: folder });
  return { configPath: join(folder, "wrangler.toml"), prebuiltWorkerDir };
}

/** The Worker is named `app`. */
async function builtByVite(folder: string): Promise<BuiltWorker> {
  await run(process.execPath, [resolve("node_modules/vite/bin/vite.js"), "build"], { cwd: folder });
  return { configPath: join(folder, "dist/app/wrangler.json") };
}
