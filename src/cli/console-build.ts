/**
 * Builds the static assets of the Worker: the OpenAPI documents, and the console, which it serves below `ADMIN_PATH`. The names
 * of the console's files except the page contain a hash of their content, so that browsers can keep them.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { build, type BuildOptions, type Metafile, type Plugin } from "esbuild";

const root = join(import.meta.dirname, "../..");
const sourceFolder = join(root, "src/console");

/** `[assets]` in `wrangler.toml` names this folder. */
const consoleFolder = join(root, "dist/console");
const playgroundFolder = join(root, "dist/playground");

const shared = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  target: "es2023",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
} satisfies BuildOptions;

/** Whether `[build]` in the configuration only builds the console. wrangler runs it before it bundles the Worker. */
export const buildsConsole = ({
  build: { command },
}: {
  readonly build: { readonly command?: string | undefined };
}): boolean => command === "npm run --silent --if-present console:build";

/**
 * Replaces the files of an earlier build, unless they were built from the same sources: wrangler runs `[build]` each time
 * that it bundles the Worker, also while another process serves the files.
 */
export async function buildConsole(): Promise<void> {
  const sources = hashOfSources();
  const isBuilt = existsSync(join(consoleFolder, "index.html")) && existsSync(builtFrom);
  if (isBuilt && readFileSync(builtFrom, "utf8") === sources) return;
  rmSync(builtFrom, { force: true });
  await buildConsoleIn(consoleFolder);
  writeFileSync(builtFrom, sources);
}

/** Has the hash of the sources that the console was built from. It is outside of the folder that wrangler uploads. */
const builtFrom = `${consoleFolder}.sources`;

function hashOfSources(): string {
  const hash = createHash("sha256");
  const files = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  for (const file of [...files.toSorted(), join(root, "package-lock.json")]) {
    if (existsSync(file)) hash.update(`${relative(root, file)}\0`).update(readFileSync(file));
  }
  return hash.digest("hex");
}

/** Replaces the files of the folder. */
export async function buildConsoleIn(folder: string): Promise<readonly Metafile[]> {
  const assets = join(folder, "assets");
  const hashed = { outdir: assets, entryNames: "[name]-[hash]", assetNames: "[name]-[hash]" };
  rmSync(folder, { recursive: true, force: true });
  const workers = await build({
    ...shared,
    ...hashed,
    format: "esm",
    entryPoints: Object.fromEntries(
      workerNames.map((name) => [`${name}-worker`, join(sourceFolder, webWorkers[name].folder, "worker.ts")]),
    ),
  });
  const workerUrl = (name: WorkerName): string =>
    `new URL("./${fileOf(workers.metafile, `${name}-worker`, ".js")}", import.meta.url).href`;
  const { metafile } = await build({
    ...shared,
    ...hashed,
    format: "esm",
    splitting: true,
    chunkNames: "chunk-[hash]",
    loader: { ".svg": "copy" },
    entryPoints: {
      console: join(sourceFolder, "app/main.tsx"),
      icon: join(sourceFolder, "app/icon.svg"),
    },
    plugins: [...workerNames.map((name) => workerModule(name, workerUrl(name), "module")), stylesOfLaterViews],
  });
  // The style sheet of the page contains the styles of all later views, so the files that esbuild writes for each view
  // are not needed.
  for (const file of outputs(metafile, ".css").filter((name) => name.startsWith("chunk-"))) {
    rmSync(join(assets, file));
  }
  const head = [
    ...firstModules(metafile).map((file) => `<link rel="modulepreload" href="assets/${file}" />`),
    `<link rel="icon" href="assets/${fileOf(metafile, "icon", ".svg")}" />`,
    `<link rel="stylesheet" href="assets/${fileOf(metafile, "console", ".css")}" />`,
    `<script type="module" src="assets/${fileOf(metafile, "console", ".js")}"></script>`,
  ];
  writeFileSync(join(folder, "index.html"), page("app/index.html", head.join("\n    ")));
  writeOpenApi(join(folder, "openapi"));
  return [workers.metafile, metafile];
}

/** Writes the OpenAPI documents, which the Worker serves with its own paths. */
function writeOpenApi(folder: string): void {
  mkdirSync(folder);
  for (const [api, file] of Object.entries({ check: "openapi.json", admin: "admin-openapi.json" })) {
    const document: unknown = JSON.parse(readFileSync(join(root, "src/http/wire", file), "utf8"));
    writeFileSync(join(folder, `${api}.json`), JSON.stringify(document));
  }
}

/** Writes the playground as one page that needs no server. Returns its path. */
export async function buildPlayground(): Promise<string> {
  const inMemory = { ...shared, format: "iife", write: false } as const;
  const worker = await build({
    ...inMemory,
    entryPoints: [join(sourceFolder, "playground/worker.ts")],
  });
  const code = worker.outputFiles[0]?.text ?? "";
  const source = `URL.createObjectURL(new Blob([${JSON.stringify(code)}], { type: "text/javascript" }))`;
  const { outputFiles } = await build({
    ...inMemory,
    outdir: playgroundFolder,
    entryPoints: [join(sourceFolder, "playground/page.tsx")],
    plugins: [workerModule("playground", source, "classic")],
  });
  const text = (extension: string): string => outputFiles.find(({ path }) => path.endsWith(extension))?.text ?? "";
  const style = `<style>${text(".css")}</style>`;
  const script = `<script type="module">${text(".js").replaceAll("</script", String.raw`<\/script`)}</script>`;
  mkdirSync(playgroundFolder, { recursive: true });
  const file = join(playgroundFolder, "index.html");
  writeFileSync(file, page("playground/index.html", `${style}\n${script}`));
  return file;
}

/** The web workers, each with its folder and the function that starts it. */
const webWorkers = {
  playground: { folder: "playground", start: "startPlaygroundWorker" },
  replay: { folder: "app/replay", start: "startReplayWorker" },
} as const;
type WorkerName = keyof typeof webWorkers;
const workerNames = ["playground", "replay"] as const satisfies readonly WorkerName[];

/**
 * The module that starts a web worker, whose place depends on the build. The URL needs a Trusted Types policy, because the
 * Content Security Policy of the console requires one. Not every browser has Trusted Types.
 */
const workerModule = (name: WorkerName, source: string, type: "classic" | "module"): Plugin => ({
  name: `${name}-worker`,
  setup(builder) {
    builder.onLoad({ filter: new RegExp(String.raw`${name}/start-worker\.ts$`) }, () => ({
      contents: `
        const policy = globalThis.trustedTypes?.createPolicy("${name}-worker", {
          createScriptURL: () => ${source},
        });
        export const ${webWorkers[name].start} = () =>
          new Worker(policy?.createScriptURL("") ?? ${source}, { type: "${type}" });
      `,
    }));
  },
});

/** Puts the styles that only one view has into its modules, so that the first view loads less. */
const stylesOfLaterViews: Plugin = {
  name: "styles-of-later-views",
  setup(builder) {
    builder.onLoad(
      { filter: /console\/(?:app\/(?:advisor|audit|keys|live)|playground)\/.+\.css$/ },
      async ({ path }) => {
        const { outputFiles } = await build({ ...shared, entryPoints: [path], write: false });
        return {
          contents: `
          const sheet = new CSSStyleSheet();
          sheet.replaceSync(${JSON.stringify(outputFiles[0]?.text ?? "")});
          document.adoptedStyleSheets.push(sheet);
        `,
          loader: "js",
        };
      },
    );
  },
};

/**
 * The modules of the entry point and of the first view. The page preloads them, so that browsers need not discover them
 * one after the other.
 */
function firstModules({ outputs: files }: Metafile): readonly string[] {
  const first = new Set(["main.tsx", "overview/view.tsx"].map((file) => `src/console/app/${file}`));
  const found = new Set<string>();
  const add = (file: string): void => {
    if (found.has(file)) return;
    found.add(file);
    for (const { path, kind } of files[file]?.imports ?? []) {
      if (kind === "import-statement") add(path);
    }
  };
  for (const [file, { entryPoint }] of Object.entries(files)) {
    if (file.endsWith(".js") && first.has(entryPoint ?? "")) add(file);
  }
  return [...found].map((file) => basename(file));
}

const outputs = ({ outputs: files }: Metafile, extension: string): string[] =>
  Object.keys(files)
    .map((file) => basename(file))
    .filter((file) => file.endsWith(extension));

/** The file of an entry point. Its name has a hash. */
const fileOf = (metafile: Metafile, name: string, extension: string): string =>
  outputs(metafile, extension).find((file) => file.startsWith(`${name}-`)) ?? "";

/** A replacer function, because code may contain the special patterns of a replacement text. */
const page = (file: string, head: string): string =>
  readFileSync(join(sourceFolder, file), "utf8").replace("<!-- assets -->", () => head);
