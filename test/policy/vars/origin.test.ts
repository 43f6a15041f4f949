import { describe, expect, it } from "vitest";
import { configOf, problemsIn, whole } from "../parsed.ts";

describe("ORIGIN", () => {
  it.for([undefined, null, ""])("ORIGIN = %j means that there is no origin", (ORIGIN) => {
    expect(configOf({ ORIGIN }).origin).toEqual({ kind: "none" });
  });

  it("ORIGIN = route means the origin of the Worker's own zone", () => {
    expect(configOf({ ORIGIN: "route" }).origin).toEqual({ kind: "route" });
  });

  it.for([
    ["https://api.example.com", "https://api.example.com/"],
    ["http://127.0.0.1:8080/", "http://127.0.0.1:8080/"],
    ["http://127.0.0.1:8788", "http://127.0.0.1:8788/"],
    ["https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443/"],
    ["HTTPS://API.Example.COM:443", "https://api.example.com/"],
    ["https://bücher.example", "https://xn--bcher-kva.example/"],
  ] as const)("ORIGIN accepts %s", ([ORIGIN, href]) => {
    const { origin } = configOf({ ORIGIN });
    expect(origin.kind === "url" && origin.url.href).toBe(href);
  });

  const wrong = [
    ["api.example.com", "//api.example.com", "/path", "ftp://a.example", "https://", "Route"],
    ["https://a.example/base", "https://a.example//", "javascript:alert(1)", "ws://a.example"],
    ["xhttps://a.example/", "localhost:8787", " ", 5, true, {}, [], ["https://a.example"]],
  ];
  it.for<unknown>(wrong.flat())("ORIGIN rejects and quotes %j", (ORIGIN) => {
    expect(problemsIn({ ...whole, ORIGIN })).toEqual([
      {
        variable: "ORIGIN",
        field: "",
        value: ORIGIN,
        accepted: expect.stringMatching(/^an http or https URL without path, .*"route"$/),
      },
    ]);
  });

  it.for([
    "https://user:hunter2@a.example",
    "https://hunter2@a.example",
    "https://a.example/?key=hunter2",
    "https://a.example#hunter2",
    "https:/user:hunter2@",
    "https://:hunter2@a.example",
    "ftp://user:hunter2@a.example/a/b",
    "https:\\\\user:hunter2@a.example",
    "https://user:hunter2@a.example:99999",
    "user:hunter2@a.example",
  ])("ORIGIN rejects %s without quoting possible credentials", (ORIGIN) => {
    expect(problemsIn({ ...whole, ORIGIN })).toMatchObject([{ variable: "ORIGIN", value: "(hidden)" }]);
  });
});

describe("ORIGIN_TIMEOUT", () => {
  it.for<[unknown, number]>([
    [undefined, 100_000],
    ["", 100_000],
    ["100ms", 100],
    ["30s", 30_000],
    ["2 minutes", 120_000],
    ["1h", 3_600_000],
  ])("ORIGIN_TIMEOUT = %j is %i ms", ([ORIGIN_TIMEOUT, milliseconds]) => {
    expect(configOf({ ORIGIN_TIMEOUT }).originTimeoutMs).toBe(milliseconds);
  });

  it.for(["99ms", "0s", "61m", "1 day", "30", 30, "-1s", "soon", "1mo", true, {}, ["30s"], "∞"])(
    "ORIGIN_TIMEOUT rejects %j",
    (ORIGIN_TIMEOUT) => {
      expect(problemsIn({ ...whole, ORIGIN_TIMEOUT })).toEqual([
        {
          variable: "ORIGIN_TIMEOUT",
          field: "",
          value: ORIGIN_TIMEOUT,
          accepted: 'a duration from 100 ms to 1 hour such as "30s"',
        },
      ]);
    },
  );
});

describe.for([
  ["LEGACY_HEADERS", "hasLegacyHeaders"],
  ["LOG_DENIALS", "logsDenials"],
] as const)("%s", ([variable, field]) => {
  it.for([
    [undefined, false],
    ["", false],
    [false, false],
    ["false", false],
    [true, true],
    ["true", true],
  ] as const)("the flag reads %j as %j", ([value, isOn]) => {
    expect(configOf({ [variable]: value })[field]).toBe(isOn);
  });

  it.for(["yes", "True", "1", 1, 0, [], {}, " true"])("the flag rejects %j", (value) => {
    expect(problemsIn({ ...whole, [variable]: value })).toEqual([
      { variable, field: "", value, accepted: "true or false" },
    ]);
  });
});
