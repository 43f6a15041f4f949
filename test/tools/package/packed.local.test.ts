/** The packed package as a consumer gets it: its files, its types, and the code that a bundler takes from it. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { publint } from "publint";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { packageSubpaths } from "../../../src/cli/package-build.ts";
import { type FreshApp, freshApp } from "./fresh-app.ts";

let app: FreshApp;
let installed: string;

beforeAll(async () => {
  app = await freshApp({}, []);
  installed = join(app.folder, "node_modules/headgate");
});

afterAll(() => app.remove());

describe("the files of the package", () => {
  it("publint reports no problem of the packed package", async () => {
    const packed = readFileSync(inject("tarball"));
    const tarball = packed.buffer.slice(packed.byteOffset, packed.byteOffset + packed.length);
    const { messages } = await publint({ pack: { tarball }, strict: true });
    expect(messages).toEqual([]);
  });

  it("attw finds no problem with the types of any subpath", () => {
    // `.attw.json` states that the package has no CommonJS, which attw would otherwise report for each subpath.
    const words = ["--no-definitely-typed", "--no-emoji", "--no-color", "--format", "ascii"];
    const attw = [resolve("test/tools/node_modules/.bin/attw"), inject("tarball"), ...words];
    const report = execFileSync(process.execPath, attw, { encoding: "utf8" });
    for (const name of packageSubpaths()) {
      expect(report).toMatch(new RegExp(`"headgate/${name}"\\s+node16 \\(from ESM\\): OK \\(ESM\\)`));
    }
  });

  it("the package contains its build, the console, the licenses and the README, and nothing else", () => {
    const found = readdirSync(installed, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name, parentPath }) => join(parentPath, name).slice(installed.length + 1));
    const built = packageSubpaths().flatMap((name) =>
      [".js", ".js.map", ".d.ts"].map((extension) => `lib/${name}${extension}`),
    );
    const hashed = /^lib\/(?:(?:chunk|types)-|console\/assets\/)[\w-]+\./;
    expect(found.filter((path) => !hashed.test(path)).toSorted()).toEqual(
      [
        "LICENSE",
        "README.md",
        "lib/THIRD-PARTY-LICENSES.txt",
        "lib/console/index.html",
        "lib/console/openapi/admin.json",
        "lib/index.d.ts",
        "lib/index.js",
        "lib/index.js.map",
        "package.json",
        ...built,
      ].toSorted(),
    );
  });

  it("the console's page in the package names only files of the package, which add at most 0.8 MB to it", () => {
    const folder = join(installed, "lib/console");
    const page = readFileSync(join(folder, "index.html"), "utf8");
    const named = [...page.matchAll(/(?:src|href)="(.*?)"/g)].map(([, file = ""]) => file);
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter((file) => !files.includes(file))).toEqual([]);
    const sizes = files.map((file) => statSync(join(folder, file)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(800_000);
  });

  it("modules and declarations of the package import only one another, hono and modules of the platform", async () => {
    const lib = join(installed, "lib");
    const { metafile } = await build({
      entryPoints: packageSubpaths().map((name) => join(lib, `${name}.js`)),
      outdir: "out",
      bundle: true,
      packages: "external",
      format: "esm",
      write: false,
      metafile: true,
    });
    const byModules = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
    const byDeclarations = readdirSync(lib)
      .filter((file) => file.endsWith(".d.ts"))
      .flatMap((file) => importedBy(readFileSync(join(lib, file), "utf8")))
      .filter((name) => !name.startsWith("./types-"));
    const foreign = /^(?!hono$|hono\/|cloudflare:)/;
    for (const imported of [byModules, byDeclarations]) {
      expect(imported).toContain("cloudflare:workers");
      expect(imported.filter((name) => foreign.test(name))).toEqual([]);
    }
  });

  it("the licenses of all bundled packages are in the package", async () => {
    const all = packageSubpaths().map((name) => `export * as ${name} from "headgate/${name}";`);
    const { sources } = await bundled(all.join("\n"));
    const ofConsole = ["@preact/signals", "@preact/signals-core", "preact", "uplot"];
    const packages = new Set([...ofConsole, ...sources.flatMap((source) => bundledPackage.exec(source)?.[1] ?? [])]);
    const licenses = readFileSync(join(installed, "lib/THIRD-PARTY-LICENSES.txt"), "utf8");
    const named = [...licenses.matchAll(/^(\S+) \d+\.\d+\.\d+ \(/gm)].map(([, name]) => name);
    expect(new Set(named)).toEqual(packages);
  });
});

const importedBy = (declarations: string): string[] =>
  [...declarations.matchAll(/^import .* from "(.+)";$|\bimport\("(.+?)"\)/gm)].map(
    ([, named, inline]) => named ?? inline ?? "",
  );

const bundledPackage = /node_modules\/((?:@[^/]+\/)?[^/]+)\//;

interface Bundled {
  readonly gzippedBytes: number;
  /** The source files whose code is in the bundle, as paths that begin with `src/` or `node_modules/`. */
  readonly sources: readonly string[];
}

/** Bundles a module of the app as a consumer would, without the peer dependency and the modules of the platform. */
async function bundled(code: string): Promise<Bundled> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: app.folder },
    outdir: "out",
    bundle: true,
    minify: true,
    format: "esm",
    sourcemap: "external",
    write: false,
    external: ["hono", "hono/*", "cloudflare:*"],
    logLevel: "silent",
  });
  const [map, module] = ["stdin.js.map", "stdin.js"].map(
    (name) => outputFiles.find(({ path }) => basename(path) === name)?.text ?? "",
  );
  const { sources, mappings } = JSON.parse(map ?? "") as { sources: string[]; mappings: string };
  expect(mappings === "").toBe(sources.length === 0);
  return {
    gzippedBytes: gzipSync(module ?? "", { level: 9 }).length,
    sources: sources.map((source) => /(?:src|node_modules)\/(?!headgate\/).*$/.exec(source)?.[0] ?? ""),
  };
}

interface Import {
  readonly code: string;
  /** The folders of `src` from which code may come. */
  readonly folders: RegExp;
  /** Slightly above the measured size. */
  readonly mostKB: number;
}

const ofStrategies = /^src\/(?:strategies|validation)\//;
const ofObjects = /^src\/(?:strategies|validation|policy|observability|(?:limiter|control)\/(?!isolate\/))/;
const ofMiddleware = /^src\/(?!sdk\/(?:client|testing)\/|(?:limiter|control)\/object\/)/;
/** A limiter without Hono contains no proxy and no admin API. */
const ofLimiter = /^src\/(?!sdk\/(?:client|testing)\/|admin\/|http\/proxy\/|(?:limiter|control)\/object\/)/;
/** An in-memory limiter contains no proxy, no admin API and no middleware. */
const ofTests = /^src\/(?!sdk\/middleware\/|admin\/|http\/proxy\/|control\/object\/)/;

const imports: readonly Import[] = [
  {
    code: 'export { parseDuration } from "headgate/strategies"',
    folders: ofStrategies,
    mostKB: 0.6,
  },
  {
    code: 'export { createMeter } from "headgate/strategies"',
    folders: ofStrategies,
    mostKB: 17.1,
  },
  { code: 'export * from "headgate/strategies"', folders: ofStrategies, mostKB: 26.6 },
  { code: 'export { RateLimiter } from "headgate/object"', folders: ofObjects, mostKB: 36.5 },
  { code: 'export * from "headgate/object"', folders: ofObjects, mostKB: 67 },
  { code: 'export { rateLimit } from "headgate/hono"', folders: ofMiddleware, mostKB: 114.2 },
  { code: 'export * from "headgate/hono"', folders: ofMiddleware, mostKB: 142 },
  { code: 'export * from "headgate/limiter"', folders: ofLimiter, mostKB: 103.4 },
  { code: 'export * from "headgate/client"', folders: /^src\/sdk\/client\//, mostKB: 6.4 },
  { code: 'export * from "headgate/test"', folders: ofTests, mostKB: 120.5 },
];

describe("the code that a bundler takes from the package", () => {
  it.each(imports)("$code adds at most $mostKB KB gzipped to a bundle", async ({ code, mostKB }) => {
    const { gzippedBytes } = await bundled(code);
    expect(gzippedBytes).toBeLessThan(mostKB * 1000);
  });

  it.each(imports)("$code adds no code of another subpath to a bundle", async ({ code, folders }) => {
    const { sources } = await bundled(code);
    const own = sources.filter((source) => source.startsWith("src/"));
    expect(own).not.toEqual([]);
    expect(own.filter((source) => !folders.test(source))).toEqual([]);
  });

  it("every subpath of the package has a size limit", () => {
    const measured = imports.map(({ code }) => /"headgate\/(.+)"/.exec(code)?.[1]);
    expect(new Set(measured)).toEqual(new Set(packageSubpaths()));
  });

  it("an import from headgate itself stays in the bundle, and fails at run time with the subpath to use", async () => {
    const { outputFiles } = await build({
      stdin: {
        contents: 'import { rateLimit } from "headgate"; export default rateLimit;',
        resolveDir: app.folder,
      },
      bundle: true,
      minify: true,
      format: "esm",
      write: false,
    });
    const url = `data:text/javascript,${encodeURIComponent(outputFiles[0]?.text ?? "")}`;
    await expect(import(/* @vite-ignore */ url)).rejects.toThrow('rateLimit from "headgate/hono"');
  });

  it.each(packageSubpaths())("an unused import of headgate/%s adds nothing to a bundle", async (name) => {
    expect((await bundled(`import "headgate/${name}";`)).sources).toEqual([]);
  });
});
