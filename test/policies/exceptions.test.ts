import { describe, expect, it } from "vitest";
import { rulingOf, rulingOfCaller } from "../../src/policies/ruling.ts";
import { policyOf, visitTo } from "./harness.ts";

describe("a path on a list", () => {
  const policy = policyOf({ key: "path", deny: ["/admin/", "//api/%75sers", "/b c/é", "/d%2fe"] });

  it.for(["/admin", "/admin/", "//admin", "/%61dmin", "/api/users", "/b%20c/%c3%a9", "/d%2Fe/"])(
    "is met by every spelling of it: %s",
    (path) => {
      expect(rulingOf(policy, visitTo(path), {}).kind).toBe("barred");
    },
  );

  it.for(["/admin", "/admin/", "/api/users", "//api/%75sers", "/b c/é", "/d%2fe"])(
    "is met by a caller who names it: %s",
    (path) => {
      expect(rulingOfCaller(policy, [path])?.kind).toBe("barred");
    },
  );

  it.for(["/", "/ADMIN", "/admin/x", "/api", "/b/c", "/d/e"])("is not %s", (path) => {
    expect(rulingOf(policy, visitTo(path), {}).kind).toBe("charged");
    expect(rulingOfCaller(policy, [path])?.kind).toBe("charged");
  });
});
