import { describe, expect, it } from "vitest";
import document from "../../src/http/openapi.json" with { type: "json" };
import { headgate, statusOf } from "./harness.ts";

describe("GET /check/openapi.json", () => {
  it("answers the document to anyone, with the path where it is served", async () => {
    const response = await headgate({ LIMITS: "5/minute" }).send("/check/openapi.json");
    expect([response.status, await response.json()]).toEqual([200, document]);
    const moved = headgate({ LIMITS: "5/minute", CHECK_PATH: "/_limits/v1" });
    const served = await moved.send("/_limits/v1/openapi.json");
    expect(await served.json<typeof document>()).toEqual({
      ...document,
      servers: [{ ...document.servers[0], url: "/_limits/v1" }],
    });
  });

  it("answers HEAD without it, and no other method", async () => {
    const { send } = headgate({ LIMITS: "5/minute" });
    const head = await send("/check/openapi.json", { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect(head.headers.get("Content-Type")).toBe("application/json");
    const posted = await send("/check/openapi.json", { method: "POST", body: "{}" });
    expect([posted.status, posted.headers.get("Allow")]).toEqual([405, "GET, HEAD"]);
  });

  it("names the path of each operation", async () => {
    const { check } = headgate({ LIMITS: "5/minute" });
    const statuses = Object.keys(document.paths).map((path) =>
      statusOf(check("PATCH", `/check${path}`)),
    );
    expect(new Set(await Promise.all(statuses))).toEqual(new Set([405]));
  });
});
