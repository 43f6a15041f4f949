/** The variables about alerts. */
import { describe, expect, it } from "vitest";
import { alertSettings } from "../../../src/policy/vars/admin.ts";
import { configOf, problemsIn, whole } from "../parsed.ts";

const webhook = "https://hooks.example.com/services/T0/secret";
const bytes = Buffer.from("0123456789abcdef0123456789abcdef");
const secret = bytes.toString("base64");

describe("alerts", () => {
  it("there are no alerts without a webhook", () => {
    expect(configOf({ ALERT_SECRET: secret, ALERT_KEYS: "default" }).alerts).toBeNull();
  });

  it("with a webhook alone, alerts are unsigned and sent when a fifth of the requests is denied", () => {
    const { alerts } = configOf({ ALERT_WEBHOOK: webhook });
    expect(alerts?.webhook.href).toBe(webhook);
    expect(alerts).toMatchObject({ secret: null, deniedShare: 0.2, keys: new Set() });
  });

  it.for(["http://localhost:8080/a", "http://127.0.0.1/", "http://[::1]:1/", "http://a.localhost"])(
    "the webhook %s of this machine may be plain http",
    (url) => {
      expect(configOf({ ALERT_WEBHOOK: url }).alerts?.webhook.href).toBe(new URL(url).href);
    },
  );

  it.for([
    "http://hooks.example.com/",
    "hooks.example.com",
    "ftp://localhost/",
    "https://user:password@hooks.example.com/",
    7,
  ])("the webhook %j is invalid, and the problem does not quote it", (value) => {
    const problems = problemsIn({ ...whole, ALERT_WEBHOOK: value });
    expect(problems.map((problem) => [problem.variable, problem.value])).toEqual([["ALERT_WEBHOOK", "(hidden)"]]);
  });

  it.for([secret, `whsec_${secret}`, ` ${secret}\n`])("the secret %j is base64", (written) => {
    const { alerts } = configOf({ ALERT_WEBHOOK: webhook, ALERT_SECRET: written });
    expect(Buffer.from(alerts?.secret ?? [])).toEqual(bytes);
  });

  it.for(["short", "whsec_", "dG9vIHNob3J0", `${secret}${secret}${secret}`, "ä".repeat(40), 5])(
    "the secret %j is invalid, and the problem does not quote it",
    (value) => {
      const problems = problemsIn({ ...whole, ALERT_SECRET: value });
      expect(problems.map((problem) => [problem.variable, problem.value])).toEqual([["ALERT_SECRET", "(hidden)"]]);
    },
  );

  it.for<[string, number]>([
    ["20%", 0.2],
    ["100 %", 1],
    ["0.5%", 0.005],
  ])("the share %s is valid", ([share, deniedShare]) => {
    const { alerts } = configOf({ ALERT_WEBHOOK: webhook, ALERT_DENIED_SHARE: share });
    expect(alerts?.deniedShare).toBeCloseTo(deniedShare);
  });

  it.for(["0%", "101%", "20", "-5%", 0.2, "many"])("the share %j is invalid", (value) => {
    const problems = problemsIn({ ...whole, ALERT_DENIED_SHARE: value });
    expect(problems.map(({ variable }) => variable)).toEqual(["ALERT_DENIED_SHARE"]);
  });

  it.for(["default", ["default"], "default, default", '["default"]'])(
    "the policies %j are names of policies",
    (written) => {
      const { alerts } = configOf({ ALERT_WEBHOOK: webhook, ALERT_KEYS: written });
      expect(alerts?.keys).toEqual(new Set(["default"]));
    },
  );

  it.for(["api", ["default", "api"], "default,", [7], "[broken"])("the policies %j are invalid", (value) => {
    const problems = problemsIn({ ...whole, ALERT_KEYS: value });
    expect(problems.map(({ variable }) => variable)).toEqual(["ALERT_KEYS"]);
  });

  it("alert settings that have no effect give warnings", () => {
    const unused = configOf({ ALERT_SECRET: secret, ALERT_KEYS: "default" });
    expect(unused.warnings).toEqual([
      "ALERT_SECRET: has no effect without ALERT_WEBHOOK",
      "ALERT_KEYS: has no effect without ALERT_WEBHOOK",
    ]);
    const alone = configOf({ ALERT_WEBHOOK: webhook });
    expect(alone.warnings).toEqual([
      "ALERT_WEBHOOK: has no effect without ADMIN_TOKENS or ACCESS_TEAM, because alerts need the control plane",
    ]);
    const token = "a-token-of-alice";
    expect(configOf({ ALERT_WEBHOOK: webhook, ADMIN_TOKENS: token }).warnings).toEqual([]);
  });
});

describe("the control plane object", () => {
  it("the alert settings can be read without the policies", () => {
    const settings = alertSettings({
      ALERT_WEBHOOK: webhook,
      ALERT_KEYS: "any",
      CONTROL_PLANE: {},
    });
    expect(settings?.keys).toEqual(new Set(["any"]));
  });

  it("no alerts are sent when one of their variables is invalid", () => {
    expect(alertSettings({ ALERT_WEBHOOK: webhook, ALERT_DENIED_SHARE: "no" })).toBeNull();
    expect(alertSettings({})).toBeNull();
  });
});
