/**
 * The tables of docs/reference/keys.md, and the tables about paths in docs/reference/policies.md, state what the code
 * does.
 */
import { describe, expect, it } from "vitest";
import { parsePath } from "../../src/policy/path-readings.ts";
import { compiledPolicy } from "../../src/policy/compiled-policy.ts";
import { problemsIn } from "../policy/parsed.ts";
import { meets, policyOf, requestTo } from "../policy/harness.ts";
import { codesIn, readPage, rowsOf } from "./pages.ts";

const keys = readPage("docs/reference/keys.md");
const policies = readPage("docs/reference/policies.md");

describe("the page of keys", () => {
  it("the page about keys lists every key part and no other", () => {
    const [problem] = problemsIn({
      POLICIES: [{ name: "a", limits: "1/s", key: "x" }],
      KEY_SECRET: "s",
    });
    const accepted = [...(problem?.accepted ?? "").matchAll(/"([^"]+)"/g)].map(([, part = ""]) => part).toSorted();
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
  )("the key part ip of %s is %s", (address, value) => {
    const request = requestTo("/", { headers: { "CF-Connecting-IP": address } });
    expect(compiledPolicy(policyOf({ key: "ip" })).keyValues(request, {})).toEqual([value]);
  });

  it.each(
    rowsOf(keys, "`match.path`", "request", "value of the part").map((cells) => cells.map((cell) => codesIn(cell)[0])),
  )("the key part path with the pattern %s is, for %s, %s", (pattern, path = "", value = "") => {
    const policy = policyOf({
      key: "path",
      ...(pattern !== undefined && { match: { path: pattern } }),
    });
    expect(compiledPolicy(policy).keyValues(requestTo(path), {})).toEqual([value]);
  });

  it("the example of a path that servers resolve differently is ambiguous", () => {
    const paths = codesIn(/^Paths that servers resolve.*$/m.exec(keys.text)?.[0]);
    expect(paths.map((path) => parsePath(path).canonical)).toEqual([null]);
  });
});

describe("the page of policies", () => {
  const isMatching = (path: string, pattern: string): boolean => meets({ path: pattern }, path);

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

  it.each(rowsOf(policies, "`cost`", "a request is charged"))("the cost %s is accepted", (cost) => {
    const [text = ""] = codesIn(cost);
    const json = text.replace(/(\w+) = /g, '"$1": ');
    expect(policyOf({ cost: JSON.parse(json) as unknown }).cost).toBeDefined();
  });
});
