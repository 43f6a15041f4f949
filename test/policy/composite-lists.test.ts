/** Entries of `allow`, `deny` and `overrides` for keys of several parts. */
import { describe, expect, it } from "vitest";
import { resolveKey } from "../../src/policy/resolve-key.ts";
import { policyOf, requestTo } from "./harness.ts";

const key = ["global", "ip", "header:x-plan", "method"];
/** The text for `global` is ignored. */
const entry = ["any", "203.0.113.0/24", "gold", "GET"];

const headersOf = (address: string, plan?: string): Record<string, string> => ({
  "CF-Connecting-IP": address,
  ...(plan !== undefined && { "X-Plan": plan }),
});

const requests = [
  ["of every part of the entry", "GET", headersOf("203.0.113.7", "gold"), true],
  ["of another network", "GET", headersOf("198.51.100.7", "gold"), false],
  ["of another value of a header", "GET", headersOf("203.0.113.7", "silver"), false],
  ["without the header", "GET", headersOf("203.0.113.7"), false],
  ["of another method", "POST", headersOf("203.0.113.7", "gold"), false],
  ["without an address", "GET", { "X-Plan": "gold" }, false],
] as const;

describe("a key rule for a key of several parts", () => {
  const rulingFor = (fields: object, method: string, headers: Record<string, string>) =>
    resolveKey(policyOf({ key, limits: "5/s", ...fields }), requestTo("/", { method, headers }), {});

  it.for(requests)("an allow entry for several parts matches a request %s: %s %j %s", ([, method, headers, holds]) => {
    const { kind } = rulingFor({ allow: [entry] }, method, headers);
    expect(kind).toBe(holds ? "exempt" : "charge");
  });

  it.for(requests)("a deny entry for several parts matches a request %s: %s %j %s", ([, method, headers, holds]) => {
    const { kind } = rulingFor({ deny: [entry] }, method, headers);
    expect(kind).toBe(holds ? "blocked" : "charge");
  });

  it.for(requests)("an override for several parts matches a request %s: %s %j %s", ([, method, headers, holds]) => {
    const overrides = [{ key: entry, limits: "9/s" }];
    expect(rulingFor({ overrides }, method, headers)).toMatchObject({
      policy: { limits: [{ limit: holds ? 9 : 5 }] },
    });
  });

  it("an entry for several parts may have a star for the address", () => {
    const starred = ["any", "203.0.113.*", "gold", "GET"];
    const rulingOfEntry = (address: string): string =>
      rulingFor({ allow: [starred] }, "GET", headersOf(address, "gold")).kind;
    expect(["203.0.113.9", "203.0.114.9"].map(rulingOfEntry)).toEqual(["exempt", "charge"]);
  });
});
