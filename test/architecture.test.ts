/** The direction of imports between the folders of `src`, and unique names. The linter enforces the size of files. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, it } from "vitest";
import { filesOfTests } from "./files.ts";

interface Rule {
  /** Folders and files of `src` that may be imported. A folder may always import from itself. */
  readonly from: readonly string[];
  /** Folders and files of `src` from which only types may be imported. */
  readonly typesFrom?: readonly string[];
  readonly packages: RegExp;
}

const none = /^$/;
const pure = ["validation", "strategies"];
const policy = [...pure, "policy", "policy/vars"];
const belowHttp = [
  ...policy,
  "observability",
  "limiter/clock.ts",
  "limiter/isolate",
  "control",
  "control/isolate",
  "http/wire",
];
const httpPackages = /^(?:hono(?:\/.+)?|jose|valibot|structured-headers)$/;
const views = /^(?:preact(?:\/.+)?|@preact\/signals|uplot(?:\/dist\/uPlot\.min\.css)?)$/;

/** Rules by folder, or by file for a file that has its own rule. The longest match applies. */
const rules: Readonly<Record<string, Rule>> = {
  validation: { from: [], packages: /^(?:valibot|leven)$/ },
  strategies: { from: ["validation"], packages: /^valibot$/ },
  policy: { from: pure, packages: /^(?:valibot|ipaddr\.js)$/ },
  "policy/vars": { from: [...pure, "policy"], packages: /^valibot$/ },
  observability: { from: [], packages: none },
  limiter: { from: policy, packages: none },
  "limiter/isolate": {
    from: [...policy, "observability", "limiter"],
    // The class that the Durable Object namespace is typed with.
    typesFrom: ["limiter/object/durable-object.ts"],
    packages: none,
  },
  "limiter/object": {
    from: [...policy, "observability", "limiter"],
    packages: /^cloudflare:workers$/,
  },
  control: { from: [...policy, "limiter"], packages: none },
  "control/object": {
    from: [...policy, "observability", "limiter", "control"],
    packages: /^cloudflare:workers$/,
  },
  "control/isolate": { from: [...policy, "control", "limiter", "observability"], packages: none },
  http: { from: [...belowHttp, "http/proxy"], packages: httpPackages },
  "http/proxy": { from: [...belowHttp, "http"], packages: httpPackages },
  "http/check": { from: [...belowHttp, "http", "http/proxy"], packages: httpPackages },
  "http/wire": {
    // `http/wire` imports decisions and failures, and never a policy or a configuration.
    from: [...pure, "limiter/isolate/outcome.ts"],
    packages: /^(?:hono(?:\/.+)?|structured-headers)$/,
  },
  admin: {
    from: [...belowHttp, "limiter", "http", "http/check", "http/proxy"],
    typesFrom: ["admin/wire.ts"],
    packages: httpPackages,
  },
  // The types of the answers, which the console imports too.
  "admin/wire.ts": {
    from: [],
    typesFrom: [...policy, "control", "limiter/isolate", "http/wire", "admin"],
    packages: none,
  },
  "app.ts": {
    from: ["http", "http/proxy", "http/check", "http/wire", "admin", "policy", "policy/vars"],
    packages: /^hono(?:\/tiny)?$/,
  },
  "index.ts": {
    from: ["app.ts", "http/check", "limiter/object", "control/object"],
    packages: /^cloudflare:workers$/,
  },
  // The subpaths of the npm package, whose files only re-export.
  "sdk/package": {
    from: [...pure, "limiter/object", "control/object", "sdk/middleware", "sdk/client", "sdk/testing"],
    packages: none,
  },
  // Runs in the tests of users, and is not part of the Worker.
  "sdk/testing": {
    from: [...policy, "limiter", "limiter/object", "http", "http/check", "http/wire", "sdk/client"],
    packages: none,
  },
  // The client runs wherever there is `fetch`, and is not part of the Worker.
  "sdk/client": { from: [], packages: /^structured-headers$/ },
  // The Hono middleware of the package.
  "sdk/middleware": {
    from: [...belowHttp, "http", "http/proxy", "http/check", "admin"],
    packages: /^(?:hono|valibot|cloudflare:workers)$/,
  },
  // Runs in Node, in a web worker and in tests, and is not part of the Worker, which never imports it.
  "advisor/replay": { from: pure, packages: none },
  "advisor/log": { from: [...policy, "advisor/replay"], packages: none },
  "advisor/search": { from: [...pure, "advisor/replay"], packages: none },
  "advisor/cli": {
    from: [...policy, "advisor/replay", "advisor/log", "advisor/search", "cli"],
    packages: /^(?:node:.+|structured-headers)$/,
  },
  // Runs on a developer's machine and is not part of the Worker, which never imports it.
  cli: {
    from: [...policy, "http/wire/version.ts"],
    packages:
      /^(?:node:.+|wrangler|esbuild|rolldown|rolldown-plugin-dts|structured-headers|jsonc-parser|toml-eslint-parser)$/,
  },
  // Runs in the browser and is not part of the Worker, which never imports it.
  "console/app": {
    from: [...pure, "advisor/replay", "advisor/log/splitter.ts", "advisor/search", "console/playground"],
    typesFrom: ["admin/wire.ts"],
    packages: views,
  },
  "console/playground": {
    from: [...policy, "advisor/replay", "advisor/log", "console/app"],
    typesFrom: ["admin/wire.ts"],
    packages: views,
  },
};

interface Import {
  /** The name of a package, or a path below `src`. */
  readonly name: string;
  readonly isTypeOnly: boolean;
}

interface Source {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly Import[];
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

/** The rule of a file below `src`: its own rule, or that of the nearest folder that has one. */
function ruleName(path: string): string {
  let name = path.replace(/^src\//, "");
  while (name !== "." && rules[name] === undefined) name = dirname(name);
  return name;
}

function isAllowed(importer: string, { name, isTypeOnly }: Import): boolean {
  const own = ruleName(importer);
  const rule = rules[own];
  if (rule === undefined) return false;
  if (!name.startsWith("src/")) return rule.packages.test(name);
  const target = ruleName(name);
  const allowed = [own, ...rule.from, ...(isTypeOnly ? (rule.typesFrom ?? []) : [])];
  return allowed.includes(target) || allowed.includes(name.slice(4));
}

it("imports follow the direction that the architecture defines", () => {
  const violations = sources.flatMap(({ path, imports }) =>
    imports.filter((each) => !isAllowed(path, each)).map(({ name }) => `${path} imports ${name}`),
  );
  expect(violations).toEqual([]);
});

it("every source file has an import rule, and every import rule applies to at least one file", () => {
  const used = new Set(sources.map(({ path }) => ruleName(path)));
  expect([...used].toSorted()).toEqual(Object.keys(rules).toSorted());
});

it("only the limiter, the local commands and the clocks of the console and the client read a clock", () => {
  const readsClock = /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(/;
  const readers = sources.filter(
    ({ path, text }) =>
      readsClock.test(text) &&
      !/^src\/(?:limiter\/|(?:advisor\/)?cli\/|(?:console\/app|sdk\/client)\/clock\.ts)/.test(path),
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
    // The console and the client are separate programs, so they may use the names of the APIs for what they read.
    const [, program = "Worker"] = /^src\/(console|sdk\/client)\//.exec(path) ?? [];
    for (const [, declared = ""] of text.matchAll(declaration)) {
      const name = `${declared} (${program})`;
      files.set(name, [...(files.get(name) ?? []), path]);
    }
  }
  const repeated = [...files].filter(([, paths]) => new Set(paths).size > 1);
  expect(repeated).toEqual([]);
});

interface Packages {
  readonly devDependencies: Readonly<Record<string, string>>;
}

/** A module of the tests with the modules and packages that it imports. */
const importsOfTests = new Map(
  filesOfTests(".ts").map((path) => {
    const imported = [
      ...readFileSync(path, "utf8").matchAll(/\bfrom "([^"]+)"|\bimport\("([^"]+)"\)|^import "([^"]+)"/gm),
    ];
    const names = imported.map(([, named, dynamic, alone]) => named ?? dynamic ?? alone ?? "");
    return [path, names.map((name) => (name.startsWith(".") ? normalize(join(dirname(path), name)) : name))];
  }),
);

it("npm test needs no package of the folder test/tools", () => {
  const { devDependencies } = JSON.parse(readFileSync("test/tools/package.json", "utf8")) as Packages;
  const installedThere = Object.keys(devDependencies);
  const reached = new Set([...importsOfTests.keys()].filter((path) => !path.startsWith("test/tools/")));
  for (const path of reached) {
    for (const name of importsOfTests.get(path) ?? []) if (importsOfTests.has(name)) reached.add(name);
  }
  const found = [...reached].flatMap((path) =>
    (importsOfTests.get(path) ?? [])
      .filter((name) => installedThere.some((each) => name === each || name.startsWith(`${each}/`)))
      .map((name) => `${path}: ${name}`),
  );
  expect(found).toEqual([]);
});
