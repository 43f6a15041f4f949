/** Builds the npm package: one module with declarations for each file in `src/sdk/package`, and the console's static files. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build, type BuildOptions, type Metafile } from "esbuild";
import { rolldown } from "rolldown";
import { dts } from "rolldown-plugin-dts";
import { buildConsoleIn } from "./console-build.ts";

const root = join(import.meta.dirname, "../..");
const entryFolder = join(root, "src/sdk/package");
/** `files` in `package.json` names this folder. */
const packageFolder = join(root, "lib");
/** `[assets]` in the `wrangler.toml` of users names it. */
const packagedConsole = join(packageFolder, "console");
/** `src/sdk/package/tsconfig.json` names this folder. */
const declarationFolder = join(root, "dist/declarations");
/** A folder below `packageFolder` for entry modules that only re-export a chunk. The package does not need them. */
const sourceEntries = "sources";
const tsc = join(root, "node_modules/typescript/bin/tsc");

/** Modules that the platform or the user provides. The package contains the code of all others. */
const external = ["hono", "hono/*", "cloudflare:*"];

/** The subpaths of the package, without a leading slash. */
export const packageSubpaths = (): string[] =>
  readdirSync(entryFolder)
    .filter((file) => file.endsWith(".ts"))
    .map((file) => file.slice(0, -".ts".length))
    .filter((name) => name !== rootEntry)
    .toSorted();

/** The entry of `headgate` without a subpath, which throws an error that names the subpath to import. */
const rootEntry = "index";

/** Replaces the files of an earlier build. */
export async function buildPackage(): Promise<void> {
  rmSync(packageFolder, { recursive: true, force: true });
  const [modules, ofConsole] = await Promise.all([
    buildModules(),
    buildConsoleIn(packagedConsole),
    buildDeclarations(),
  ]);
  // The middleware does not serve `/check`, so the package needs no document for it.
  rmSync(join(packagedConsole, "openapi/check.json"));
  const licenses = licensesOf([modules, ...ofConsole]);
  writeFileSync(join(packageFolder, "THIRD-PARTY-LICENSES.txt"), licenses);
}

const shared = {
  absWorkingDir: root,
  outdir: packageFolder,
  bundle: true,
  splitting: true,
  chunkNames: "chunk-[hash]",
  format: "esm",
  platform: "neutral",
  mainFields: ["module", "main"],
  target: "es2023",
  sourcemap: true,
  external,
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
} satisfies BuildOptions;

/**
 * Each source file becomes a chunk of its own. Bundlers omit a whole chunk of a package without side effects, but they
 * keep statements of a chunk that they cannot prove to be pure.
 */
async function buildModules(): Promise<Metafile> {
  const subpaths = entriesIn(entryFolder, ".ts");
  const { metafile } = await build({ ...shared, entryPoints: subpaths, write: false });
  const files = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs));
  // The root gets no chunk of its own, because a bundler must keep its module, which throws.
  const sources = files.filter((file) => file.startsWith("src/") && file !== `src/sdk/package/${rootEntry}.ts`);
  const entries = sources.map((file) => [join(sourceEntries, file), file]);
  await build({ ...shared, entryPoints: { ...Object.fromEntries(entries), ...subpaths } });
  rmSync(join(packageFolder, sourceEntries), { recursive: true });
  return metafile;
}

/** Bundles what tsc emits, so that no declaration names a type of a bundled package or an internal file. */
async function buildDeclarations(): Promise<void> {
  rmSync(declarationFolder, { recursive: true, force: true });
  execFileSync(process.execPath, [tsc, "-p", entryFolder], { stdio: "inherit" });
  const bundle = await rolldown({
    input: entriesIn(join(declarationFolder, "sdk/package"), ".d.ts"),
    external: (name) => !name.startsWith(".") && !name.startsWith("/"),
    // The plugin needs a generator or a tsconfig.json, although it only reads declarations.
    plugins: [dts({ dtsInput: true, tsconfig: false, generator: "oxc" })],
  });
  await bundle.write({ dir: packageFolder, chunkFileNames: "types-[hash].d.ts" });
}

const entriesIn = (folder: string, extension: string): Record<string, string> =>
  Object.fromEntries([...packageSubpaths(), rootEntry].map((name) => [name, join(folder, name + extension)]));

/** The licenses of the packages whose code is in the build. */
function licensesOf(builds: readonly Metafile[]): string {
  const folders = builds
    .flatMap(({ outputs }) => Object.values(outputs))
    .flatMap(({ inputs }) => Object.entries(inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .flatMap(([file]) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1] ?? []);
  return [...new Set(folders)].toSorted().map(licenseIn).join("\n\n");
}

function licenseIn(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
  const file = readdirSync(join(root, folder)).find((each) => /^licen[cs]e/i.test(each));
  const text = file === undefined ? "" : readFileSync(join(root, folder, file), "utf8");
  return `${name} ${version} (${license})\n\n${text}`.trimEnd() + "\n";
}
