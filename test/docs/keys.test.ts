/** The tables of docs/reference/keys.md, and those of docs/reference/policies.md about paths, state what the code does. */
import { describe, expect, it } from "vitest";
import { parsePath, type Policy } from "../../src/config/index.ts";
import { requestKeyValues } from "../../src/policies/key.ts";
import { matchingPolicies } from "../../src/policies/match.ts";
import { configOf, problemsIn } from "../config/harness.ts";
import { requestTo } from "../policies/harness.ts";
import { readPage } from "./pages.ts";

const keys = readPage("docs/reference/keys.md");
const policies = readPage("docs/reference/policies.md");

/** The texts in code font in a cell. */
const codesIn = (cell = ""): string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);

const rowsOf = (page: typeof keys, ...columns: readonly string[]): (readonly string[])[] => {
  const table = page.tables.find((each) =>
    columns.every((name, index) => each.columns[index] === name),
  );
  if (table === undefined) throw new Error(`${page.path} has no table ${columns.join(", ")}`);
  return [...table.rows];
};

function policyWith(fields: object): Policy {
  const POLICIES = [{ name: "a", limits: "5/minute", ...fields }];
  const [policy] = configOf({
    POLICIES,
    JWT_KEY: "a secret of at least thirty-two bytes",
  }).policies;
  if (policy === undefined) throw new Error("no policy");
  return policy;
}

describe("the page of keys", () => {
  it("lists every key part and no other", () => {
    const [problem] = problemsIn({
      POLICIES: [{ name: "a", limits: "1/s", key: "x" }],
      KEY_SECRET: "s",
    });
    const accepted = [...(problem?.accepted ?? "").matchAll(/"([^"]+)"/g)]
      .map(([, part = ""]) => part)
      .toSorted();
    expect(
      rowsOf(keys, "part", "value", "missing when")
        .flatMap(([part]) => codesIn(part))
        .toSorted(),
    ).toEqual(accepted);
  });

  it.each(
    rowsOf(keys, "address", "value of the part").flatMap(([addresses, value]) =>
      codesIn(addresses).map((address) => [address, codesIn(value)[0]] as const),
    ),
  )("the part ip of %s is %s", (address, value) => {
    const request = requestTo("/", { headers: { "CF-Connecting-IP": address } });
    expect(requestKeyValues(policyWith({ key: "ip" }), request, {})).toEqual([value]);
  });

  it.each(
    rowsOf(keys, "`match.path`", "request", "value of the part").map((cells) =>
      cells.map((cell) => codesIn(cell)[0]),
    ),
  )("the part path with the pattern %s is, for %s, %s", (pattern, path = "", value = "") => {
    const policy = policyWith({
      key: "path",
      ...(pattern !== undefined && { match: { path: pattern } }),
    });
    expect(requestKeyValues(policy, requestTo(path), {})).toEqual([value]);
  });

  it("the path that servers resolve in different ways is ambiguous", () => {
    expect(codesIn(/^Paths that servers resolve.*$/m.exec(keys.text)?.[0])).toHaveLength(1);
    expect(
      parsePath(codesIn(/^Paths that servers resolve.*$/m.exec(keys.text)?.[0])[0] ?? "").canonical,
    ).toBeNull();
  });
});

describe("the page of policies", () => {
  const isMatching = (path: string, pattern: string): boolean =>
    matchingPolicies([policyWith({ match: { path: pattern } })], requestTo(path)).length === 1;

  it.each(rowsOf(policies, "pattern", "matches", "does not match"))(
    "the pattern %s matches %s and not %s",
    (pattern, matching, others) => {
      const [text = ""] = codesIn(pattern);
      expect(codesIn(matching).filter((path) => !isMatching(path, text))).toEqual([]);
      expect(codesIn(others).filter((path) => isMatching(path, text))).toEqual([]);
    },
  );

  it("all spellings that the page names match /login", () => {
    const [, spellings = ""] = /All of these match `\/login`: ([^]*?)\./.exec(policies.text) ?? [];
    expect(codesIn(spellings).length).toBeGreaterThan(4);
    expect(codesIn(spellings).filter((path) => !isMatching(path, "/login"))).toEqual([]);
  });

  it.each(rowsOf(policies, "notation", "meaning"))("the notation %s is accepted", (notation) => {
    for (const limits of codesIn(notation).filter((text) => text.startsWith('"'))) {
      expect(problemsIn({ LIMITS: JSON.parse(limits) as unknown, KEY_SECRET: "s" })).toEqual([]);
    }
  });

  it.each(rowsOf(policies, "`cost`", "a request spends"))("the cost %s is accepted", (cost) => {
    const [text = ""] = codesIn(cost);
    const json = text.replace(/(\w+) = /g, '"$1": ');
    expect(policyWith({ cost: JSON.parse(json) as unknown }).cost).toBeDefined();
  });
});
