import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "vitest";

/** Who may import whom, by the first folder or file below `src`. */
const rules: Record<string, { rooms: readonly string[]; packages: RegExp }> = {
  validation: { rooms: [], packages: /^$/ },
  strategies: { rooms: [], packages: /^(?:valibot|leven)$/ },
  config: { rooms: ["validation", "strategies"], packages: /^(?:valibot|ipaddr\.js)$/ },
  observability: { rooms: [], packages: /^$/ },
  policies: { rooms: ["config", "strategies"], packages: /^$/ },
  limiter: {
    rooms: ["strategies", "config", "observability"],
    packages: /^cloudflare:workers$/,
  },
  http: {
    rooms: ["validation", "strategies", "config", "policies", "limiter", "observability"],
    packages: /^(?:hono(?:\/.+)?|jose|valibot|structured-headers)$/,
  },
  "app.ts": { rooms: ["http", "config"], packages: /^hono\/tiny$/ },
  "index.ts": { rooms: ["app.ts", "limiter"], packages: /^cloudflare:workers$/ },
  // What runs on a developer's machine is no part of the Worker, and nothing of the Worker imports it.
  local: { rooms: ["config", "strategies"], packages: /^(?:node:.+|wrangler)$/ },
};

const maximumLines = 400;

interface Source {
  readonly path: string;
  readonly room: string;
  readonly text: string;
  readonly imports: readonly string[];
}

const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".d.ts"))
    .map((path) => join(folder, path));

const roomOf = (path: string): string => path.split("/")[1] ?? "";

const sources: Source[] = filesBelow("src").map((path) => {
  const text = readFileSync(path, "utf8");
  const statements = /^(?:import|export)\s(?:[^;"]*\sfrom\s)?"([^"]+)"|\bimport\("([^"]+)"\)/gm;
  const imports = [...text.matchAll(statements)].map(
    ([, named, dynamic]) => named ?? dynamic ?? "",
  );
  return { path, room: roomOf(path), text, imports };
});

describe.each(sources)("$path", ({ path, room, text, imports }) => {
  it("has a room, and imports only from where its room may", () => {
    const rule = rules[room];
    const refused = imports.filter((name) => {
      if (!name.startsWith(".")) return !rule?.packages.test(name);
      const target = roomOf(normalize(join(dirname(path), name)));
      return target !== room && !rule?.rooms.includes(target);
    });
    expect({ room: rule !== undefined, refused }).toEqual({ room: true, refused: [] });
  });

  it("reads no clock, unless it is the limiter's", () => {
    const readsClock = /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(/.test(text);
    expect(readsClock && room !== "limiter" && room !== "local").toBe(false);
  });

  it("leaves the object's own file to the limiter, but for its shapes", () => {
    const values = /^(?:import|export) (?!type )[^;]*rate-limiter\.ts"/m.test(text);
    expect(values && room !== "limiter" && path !== "src/index.ts").toBe(false);
  });

  it("says at its top what it is for", () => {
    expect(text.startsWith("/**")).toBe(true);
  });
});

it.each([...filesBelow("src"), ...filesBelow("test")])("%s has at most 400 lines", (path) => {
  expect(readFileSync(path, "utf8").split("\n").length - 1).toBeLessThanOrEqual(maximumLines);
});

it("the rules themselves are kept by some file each, so that none of them is dead", () => {
  expect([...new Set(sources.map(({ room }) => room))].toSorted()).toEqual(
    Object.keys(rules).toSorted(),
  );
});
