/** Recommended policies as TOML. */
import { describe, expect, it } from "vitest";
import { readRequestPattern } from "../../../src/advisor/log/log-filter.ts";
import { policyName, policyToml } from "../../../src/advisor/cli/advice-report.ts";

const policy = {
  name: "api",
  keyParts: ["ip"],
  keyFields: [],
  written: [{ limit: 100, window: "1m", strategy: "sliding-log" }],
  strategy: "sliding-log",
};

describe("a policy as TOML", () => {
  it("limits without options of their own are in notation", () => {
    const written = [...policy.written, { limit: 20, window: "10s", strategy: "sliding-log" }];
    expect(policyToml({ ...policy, written })).toEqual([
      "[[vars.POLICIES]]",
      'name = "api"',
      'key = ["ip"]',
      'strategy = "sliding-log"',
      'limits = "100/minute; 20/10s"',
    ]);
  });

  it("limits with options are tables", () => {
    const written = [{ limit: 10, window: "1s", strategy: "token-bucket", burst: 30 }];
    expect(policyToml({ ...policy, written, strategy: "token-bucket" }).slice(-2)).toEqual([
      'strategy = "token-bucket"',
      'limits = [{ limit = 10, window = "1s", burst = 30 }]',
    ]);
  });

  it.each([
    ["http_x_api_key", "header:x-api-key"],
    ["request.headers.X-Api-Key", "header:x-api-key"],
    ["user.id", "header:user-id"],
  ])("the field %s becomes %s with a comment that asks for the key part", (field, part) => {
    const lines = policyToml({ ...policy, keyParts: ["ip", field], keyFields: [field] });
    expect(lines[0]).toBe(
      `# "${field}" is a field of the log and no key part: replace "${part}" with the part that has it.`,
    );
    expect(lines).toContain(`key = ${JSON.stringify(["ip", part])}`);
  });

  it("a filter of requests becomes the match of the policy, and comments state what a match cannot express", () => {
    const filterOf = (texts: readonly string[], status: string | null) => ({
      match: texts.map((text) => {
        const pattern = readRequestPattern(text);
        if ("accepted" in pattern) throw new Error(pattern.accepted);
        return pattern;
      }),
      status,
    });
    const one = policyToml({ ...policy, filter: filterOf(["post,PUT /login"], "401") });
    expect(one[0]).toBe("# Only the status 401 was read: this policy counts all requests.");
    expect(one).toContain('match = { methods = ["POST","PUT"], path = "/login" }');
    const two = policyToml({ ...policy, filter: filterOf(["POST", "/signup/*"], null) });
    expect(two[0]).toBe("# Only the requests POST or /signup/* were read: write a policy for each.");
    expect(two.join("")).not.toContain("match =");
  });

  it("an invalid name is rejected", () => {
    expect(() => policyName("My API")).toThrow(/^--name: expected a name of 1 to 64 .*, got "My API"$/);
  });
});
