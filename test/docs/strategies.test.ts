/** Runs the examples of docs/reference/strategies.md, and compares the page's bounds, sizes and names with the code. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { compiledLimit } from "../../src/strategies/compiled-limit.ts";
import {
  createMeter,
  type Decision,
  type Limit,
  mostStoredBytesOf,
  parseLimits,
  strategies,
} from "../../src/strategies/index.ts";
import { remainingOf } from "../strategies/meters.ts";
import { at } from "../strategies/timeline.ts";

const page = readFileSync("docs/reference/strategies.md", "utf8");

type Cells = Readonly<Record<string, string>>;

/** A table of the page, with the configuration in the last TOML block above it. */
interface Table {
  readonly heading: string;
  readonly toml: string;
  readonly columns: readonly string[];
  readonly rows: readonly Cells[];
}

const cellsOf = (line: string): string[] =>
  line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());

function tablesOf(text: string): Table[] {
  const tables: Table[] = [];
  let [heading, toml] = ["", ""];
  for (const [block] of text.matchAll(/^```[\s\S]*?^```$|^#+ .*$|(?:^\|.*\|\n)+/gm)) {
    if (block.startsWith("#")) [heading, toml] = [block.replace(/^#+ |`/g, ""), ""];
    else if (block.startsWith("```toml\n")) toml = block.slice(8, -3);
    if (!block.startsWith("|")) continue;
    const [header = "", , ...lines] = block.trimEnd().split("\n");
    const columns = cellsOf(header);
    const rows = lines.map((line) => {
      const cells = cellsOf(line);
      return Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? ""]));
    });
    tables.push({ heading, toml, columns, rows });
  }
  return tables;
}

/** The limits of the only policy in a TOML block. In TOML, field names and trailing commas differ from JSON. */
function limitsOf(toml: string): readonly Limit[] {
  const [, ofPolicy] = /^\[\[vars\.POLICIES\]\]\n([\s\S]*)$/.exec(toml) ?? [];
  const variables = Object.fromEntries(
    (ofPolicy ?? toml).split(/\n(?=\w+ = )/).map((field) => {
      const [, name = "", value = ""] = /^(\w+) = ([\s\S]*)$/.exec(field) ?? [];
      const json = value.replace(/(\w+) = /g, '"$1": ').replace(/,(\s*[\]}])/g, "$1");
      return [name, JSON.parse(json) as unknown];
    }),
  );
  const { policies } = parseConfig({
    KEY_SECRET: "a secret",
    ...(ofPolicy === undefined ? variables : { POLICIES: [variables] }),
  });
  const [policy, ...others] = policies;
  if (policy === undefined || others.length > 0) throw new Error("expected one policy");
  return policy.limits;
}

const tables = tablesOf(page);
const examples = tables.filter(({ columns }) => columns[0] === "at");

const instantOf = (time: string): number => (time.includes("-") ? Date.parse(`${time.replace(" ", "T")}Z`) : at(time));

const nothing = "–";

/** A duration in the form that the page uses. */
function durationText(durationMs: number | null): string {
  if (durationMs === null) return "never";
  if (durationMs === 0) return nothing;
  if (durationMs < 1_000) return `${durationMs} ms`;
  if (durationMs < 60_000) return `${durationMs / 1_000} s`;
  return durationMs < 3_600_000 ? `${durationMs / 60_000} min` : `${durationMs / 3_600_000} h`;
}

const decisionCells = (decision: Decision): Cells => ({
  decision: decision.allowed ? "allowed" : "denied",
  remaining: String(remainingOf(decision)),
  "retry after": durationText(decision.retryAfterMs),
  delay: durationText(decision.delayMs),
});

/** The rows of an example, with the decisions of a new meter. */
function playedRows({ toml, columns, rows }: Table): Cells[] {
  const limits = limitsOf(toml);
  const meter = createMeter(limits);
  const ttlMs = limits[0]?.windowMs ?? 0;
  const startedAtMs = new Map<string, number>();
  return rows.map((row) => {
    const nowMs = instantOf(row["at"] ?? "");
    const [, name = "", event] = /^(\w+) (starts|ends)$/.exec(row["event"] ?? "") ?? [];
    let decided: Cells;
    if (event === "ends") {
      const spentAtMs = startedAtMs.get(name) ?? Number.NaN;
      meter.settle({ cost: 1, actualCost: 1, spentAtMs, ttlMs }, nowMs);
      decided = { ...decisionCells(meter.look(0, nowMs)), decision: nothing };
    } else if (event === "starts") {
      startedAtMs.set(name, nowMs);
      decided = decisionCells(meter.reserve({ cost: 1, ttlMs }, nowMs));
    } else {
      decided = decisionCells(meter.consume(Number(row["cost"]), nowMs));
    }
    const complete = { ...row, ...decided };
    return Object.fromEntries(columns.map((column) => [column, complete[column] ?? ""]));
  });
}

describe("the examples of the strategies", () => {
  test("every strategy has an example under its own heading in the reference", () => {
    expect(new Set(examples.map(({ heading }) => heading))).toEqual(
      new Set([...strategies.keys(), "Several limits on one key"]),
    );
  });

  test.each(examples.map((example, index) => [index + 1, example.heading, example] as const))(
    "each row of example %i (%s) states what a meter decides",
    (_, heading, example) => {
      const used = limitsOf(example.toml).map(({ strategy }) => strategy);
      expect(used).toEqual(strategies.has(heading) ? [heading] : used);
      expect(playedRows(example)).toEqual(example.rows);
    },
  );

  test("the check of examples finds a changed decision, a changed remainder and a changed wait", () => {
    for (const [stated, changed] of [
      ["|    1 | denied   |         0 | 8 s         |", "|    1 | allowed  |         0 | 8 s         |"],
      ["|    1 | denied   |         0 | 8 s         |", "|    1 | denied   |         1 | 8 s         |"],
      ["|    1 | denied   |         0 | 8 s         |", "|    1 | denied   |         0 | 9 s         |"],
    ] as const) {
      const [example] = tablesOf(page.replace(stated, changed)).filter(
        ({ heading, columns }) => heading === "sliding-log" && columns[0] === "at",
      );
      if (example === undefined) throw new Error("expected an example");
      expect(playedRows(example)).not.toEqual(example.rows);
    }
  });
});

const tableWith = (column: string): Table => {
  const found = tables.find(({ columns }) => columns.includes(column));
  if (found === undefined) throw new Error(`expected a table with the column "${column}"`);
  return found;
};

const optionsIn = (cell: string): object =>
  Object.fromEntries([...cell.matchAll(/(\w+) = "(\w+)"/g)].map(([, name, value]) => [name, value]));

describe("the table of bounds and state sizes", () => {
  const { rows } = tableWith("bound");

  test("the table of strategies in the reference lists every strategy", () => {
    const listed = rows.map(({ strategy }) => /[a-z-]+/.exec(strategy ?? "")?.[0]);
    expect(new Set(listed)).toEqual(new Set(strategies.keys()));
  });

  test.each(rows.map((row) => [row["strategy"] ?? "", row] as const))(
    "the page's bound and sizes of %s equal those of the code",
    (cell, row) => {
      const strategy = /[a-z-]+/.exec(cell)?.[0] ?? "";
      const limitOf = (limit: number, window: string): Limit => {
        const [parsed] = parseLimits({ limit, window, strategy, ...optionsIn(cell) });
        if (parsed === undefined) throw new Error("expected a limit");
        return parsed;
      };
      const sizes = [limitOf(100, "1m"), limitOf(10_000, "1h")].map(mostStoredBytesOf);
      expect([row["100/minute"], row["10000/hour"]]).toEqual(sizes.map((size) => size.toLocaleString("en")));
      const limit = limitOf(100, "1m");
      const { strategy: rule, limit: complete } = compiledLimit(limit);
      const bounds: Readonly<Record<string, number>> = {
        L: 100,
        "2 × L": 200,
        "`burst` + L": 200,
        "`burst` + 1 + L": 201,
        "L at any one time": 100,
      };
      expect(bounds[row["bound"] ?? ""]).toBe(rule.mostPerWindow(complete));
    },
  );
});

test("the reference of strategies states the generated names of limits", () => {
  const { toml, rows } = tableWith("limit as written");
  expect(limitsOf(toml).map(({ name }) => `\`${name}\``)).toEqual(rows.map(({ name }) => name));
});

test("each string in the table of notation is a valid list of limits", () => {
  const { rows } = tableWith("string");
  const counts = rows.map(({ string = "" }) => parseLimits(JSON.parse(string.replace(/`/g, "")) as string));
  expect(counts.map(({ length }) => length)).toEqual([1, 1, 1, 2, 1]);
});
