/** The direction of imports between the folders of `src`, and unique names. The linter enforces the size of files. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, it } from "vitest";

interface Rule {
  /** Folders and files of `src` that may be imported, besides the folder itself. */
  readonly from: readonly string[];
  readonly packages: RegExp;
}

const none = /^$/;
const pure = ["validation", "strategies"];
const belowHttp = [
  ...pure,
  "config",
  "policies",
  "observability",
  "limiter/clock.ts",
  "limiter/client",
  "control",
  "control/client",
  "http/wire",
];
const httpPackages = /^(?:hono(?:\/.+)?|jose|valibot|structured-headers)$/;

/** By folder, or by file where a file stands alone. The longest match applies. */
const rules: Readonly<Record<string, Rule>> = {
  validation: { from: [], packages: /^(?:valibot|leven)$/ },
  strategies: { from: ["validation"], packages: /^valibot$/ },
  config: { from: pure, packages: /^(?:valibot|ipaddr\.js)$/ },
  observability: { from: [], packages: none },
  policies: { from: [...pure, "config", "limiter/bounded-map.ts"], packages: none },
  limiter: { from: [...pure, "config"], packages: none },
  "limiter/client": {
    from: [...pure, "config", "observability", "limiter"],
    packages: none,
  },
  "limiter/object": {
    from: [...pure, "config", "observability", "limiter"],
    packages: /^cloudflare:workers$/,
  },
  control: { from: ["config", "limiter"], packages: none },
  "control/object": {
    from: ["validation", "config", "observability", "limiter", "control"],
    packages: /^cloudflare:workers$/,
  },
  "control/client": {
    from: [...pure, "config", "control", "limiter", "observability"],
    packages: none,
  },
  http: { from: [...belowHttp, "http/proxy"], packages: httpPackages },
  "http/setup": { from: ["http/wire"], packages: /^hono\/(?:html|utils\/accept)$/ },
  "http/proxy": { from: [...belowHttp, "http", "http/setup"], packages: httpPackages },
  "http/check": { from: [...belowHttp, "http", "http/proxy"], packages: httpPackages },
  "http/admin": {
    from: [...belowHttp, "control", "limiter", "http", "http/check", "http/proxy"],
    packages: httpPackages,
  },
  "http/wire": {
    // `http/wire` imports decisions and failures, and never a policy or a configuration.
    from: [...pure, "limiter/client/outcome.ts"],
    packages: /^(?:hono(?:\/.+)?|structured-headers)$/,
  },
  "app.ts": {
    from: ["http", "http/proxy", "http/check", "http/admin", "http/setup", "http/wire", "config"],
    packages: /^hono(?:\/tiny)?$/,
  },
  "index.ts": {
    from: ["app.ts", "http/check", "limiter/object", "control/object"],
    packages: /^cloudflare:workers$/,
  },
  // The subpaths of the npm package, which only export.
  package: {
    from: [...pure, "limiter/object", "control/object", "middleware", "client", "testing"],
    packages: none,
  },
  // Runs in the tests of users, and is not part of the Worker.
  testing: {
    from: [...pure, "config", "limiter", "limiter/object", "http", "http/check", "http/wire", "client"],
    packages: none,
  },
  // The client runs wherever there is `fetch`, and is not part of the Worker.
  client: { from: [], packages: /^structured-headers$/ },
  // The Hono middleware of the package.
  middleware: {
    from: [
      ...pure,
      "config",
      "policies",
      "observability",
      "limiter/client",
      "limiter/bounded-map.ts",
      "limiter/clock.ts",
      "http",
      "http/proxy",
      "http/admin",
      "http/check",
      "http/wire",
    ],
    packages: /^(?:hono|valibot|cloudflare:workers)$/,
  },
  // Replays run in Node, in a web worker and in tests, and are not part of the Worker, which never imports them.
  replay: { from: pure, packages: none },
  "replay/log": { from: [...pure, "config", "policies", "replay"], packages: none },
  advisor: { from: [...pure, "replay"], packages: none },
  // Runs on a developer's machine and is not part of the Worker, which never imports it.
  local: {
    from: [...pure, "config", "replay", "replay/log", "advisor", "http/wire/version.ts"],
    packages:
      /^(?:node:.+|wrangler|esbuild|rolldown|rolldown-plugin-dts|structured-headers|@observablehq\/plot|linkedom)$/,
  },
  // Runs in the browser and is not part of the Worker, which never imports it.
  console: {
    from: ["console/advisor", "console/playground", "console/replay"],
    packages: /^(?:preact(?:\/.+)?|@preact\/signals|uplot(?:\/dist\/uPlot\.min\.css)?)$/,
  },
  // Replays samples in a web worker.
  "console/replay": {
    from: [...pure, "replay", "replay/log/line-splitter.ts", "advisor", "console"],
    packages: /^(?:preact\/hooks|@preact\/signals)$/,
  },
  // Only the reader of goals imports more than types of the replay and the advisor.
  "console/advisor": {
    from: [...pure, "advisor", "console", "console/replay"],
    packages: /^(?:preact(?:\/.+)?|@preact\/signals|uplot)$/,
  },
  "console/playground": {
    from: [...pure, "replay", "replay/log", "console"],
    packages: /^(?:preact(?:\/.+)?|@preact\/signals|uplot)$/,
  },
};

interface Source {
  readonly path: string;
  readonly text: string;
  /** Package names, and paths below `src`. */
  readonly imports: readonly { readonly name: string; readonly isTypeOnly: boolean }[];
}

const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => /\.tsx?$/.test(path) && !path.endsWith(".d.ts"))
    .map((path) => join(folder, path));

const statements = /^(?:import|export)\s(type\s)?(?:[^;"]*\sfrom\s)?"([^"]+)"|\bimport\("([^"]+)"\)/gm;

const sources: Source[] = filesBelow("src").map((path) => {
  const text = readFileSync(path, "utf8");
  const imports = [...text.matchAll(statements)].map(([, isType, named, dynamic]) => {
    const name = named ?? dynamic ?? "";
    return {
      name: name.startsWith(".") ? normalize(join(dirname(path), name)) : name,
      isTypeOnly: isType !== undefined,
    };
  });
  return { path, text, imports };
});

/** The rule of a file below `src`: that of the file itself, or of the nearest folder that has one. */
function ruleName(path: string): string {
  let name = path.replace(/^src\//, "");
  while (name !== "." && rules[name] === undefined) name = dirname(name);
  return name;
}

function isAllowed(importer: string, imported: string): boolean {
  const own = ruleName(importer);
  const rule = rules[own];
  if (rule === undefined) return false;
  if (!imported.startsWith("src/")) return rule.packages.test(imported);
  const target = ruleName(imported);
  return target === own || rule.from.includes(target) || rule.from.includes(imported.slice(4));
}

/** Imported as a type only: the class that the Durable Object namespace is typed with. */
const objectClass = "src/limiter/object/rate-limiter.ts";

it("imports follow the direction of the design", () => {
  const violations = sources.flatMap(({ path, imports }) =>
    imports
      .filter(({ name, isTypeOnly }) => {
        const isClassType = path.startsWith("src/limiter/client/") && name === objectClass;
        return !isAllowed(path, name) && !(isClassType && isTypeOnly);
      })
      .map(({ name }) => `${path} imports ${name}`),
  );
  expect(violations).toEqual([]);
});

it("every source file has an import rule, and every rule a file", () => {
  const used = new Set(sources.map(({ path }) => ruleName(path)));
  expect([...used].toSorted()).toEqual(Object.keys(rules).toSorted());
});

it("only the limiter, the local commands and the clocks of the console and the client read a clock", () => {
  const readsClock = /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(/;
  const readers = sources.filter(
    ({ path, text }) =>
      readsClock.test(text) && !/^src\/(?:limiter\/|local\/|(?:console|client)\/clock\.ts)/.test(path),
  );
  expect(readers.map(({ path }) => path)).toEqual([]);
});

it("every source file begins with a comment that states its purpose", () => {
  const silent = sources.filter(({ text }) => !text.startsWith("/**"));
  expect(silent.map(({ path }) => path)).toEqual([]);
});

it("no two files of the Worker, of the console or of the client declare a type or export a value of the same name", () => {
  const declaration =
    /^(?:export (?:default )?(?:async )?(?:function\*?|const|class)|(?:export )?(?:interface|type)) ([A-Za-z]\w*)/gm;
  const files = new Map<string, string[]>();
  for (const { path, text } of sources) {
    // The console and the client are programs of their own. They name what they read as the APIs do.
    const [, program = "Worker"] = /^src\/(console|client)\//.exec(path) ?? [];
    for (const [, declared = ""] of text.matchAll(declaration)) {
      const name = `${declared} (${program})`;
      files.set(name, [...(files.get(name) ?? []), path]);
    }
  }
  const repeated = [...files].filter(([, paths]) => new Set(paths).size > 1);
  expect(repeated).toEqual([]);
});
