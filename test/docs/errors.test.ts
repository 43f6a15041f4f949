/** The pages about errors show every problem document of Headgate as it is sent. */
import { expect, it } from "vitest";
import { type Failure, problemDetails, problemResponse, proxyErrorOf } from "../../src/http/wire/problems.ts";
import { readPage, rowsOf } from "./pages.ts";

const path = "docs/reference/errors.md";

/** One failure of each kind, and additional failures whose documents differ. */
const failures: readonly Failure[] = [
  { kind: "quota-exceeded", reason: "limit", violated: ["api"], retryAfterMs: 12_000 },
  { kind: "quota-exceeded", reason: "cost", violated: ["api"], retryAfterMs: null },
  { kind: "abnormal-usage", violated: [], retryAfterMs: 3_600_000 },
  { kind: "blocked" },
  { kind: "key-missing", parts: ["header:x-api-key"] },
  { kind: "in-flight-full" },
  { kind: "reservations-full", retryAfterMs: 30_000 },
  { kind: "undecided" },
  { kind: "origin-unset" },
  { kind: "origin-unreachable" },
  { kind: "origin-response-invalid" },
  { kind: "origin-too-slow" },
  { kind: "origin-is-self" },
  { kind: "loop" },
  {
    kind: "configuration-invalid",
    problems: [
      {
        variable: "POLICIES",
        field: "[0].onError",
        policy: "login",
        value: "close",
        accepted: 'one of "local", "open", "closed"',
      },
    ],
  },
  {
    kind: "configuration-missing",
    problems: [
      {
        variable: "KEY_SECRET",
        field: "",
        value: undefined,
        accepted:
          "a secret text, the same in every deployment; set it with `wrangler secret put KEY_SECRET`, or in .dev.vars locally",
      },
    ],
  },
  { kind: "internal" },
  { kind: "url-malformed" },
  { kind: "method-not-allowed", allowed: ["GET", "HEAD", "POST", "DELETE"] },
  { kind: "json-too-deep", place: "bearer token", position: 65 },
  { kind: "unauthorized", hasTokens: true, isGiven: false },
  { kind: "unauthorized", hasTokens: true, isGiven: true },
  { kind: "unauthorized", hasTokens: false, isGiven: false },
  { kind: "not-permitted", right: "forget" },
  { kind: "unknown-path" },
  { kind: "unknown-policy" },
  { kind: "query-malformed" },
  { kind: "body-malformed" },
  { kind: "body-too-large", limitBytes: 16_384 },
  { kind: "body-of-other-type" },
  { kind: "fields-invalid", errors: [{ field: "cost", accepted: "an integer from 0 to 1000000" }] },
  { kind: "operator-unknown", hasTokens: true, given: null },
  { kind: "operator-unknown", hasTokens: true, given: "token" },
  { kind: "operator-unknown", hasTokens: false, given: null },
  { kind: "operator-unknown", hasTokens: true, given: "access" },
  { kind: "operator-not-permitted", right: "write", via: "token" },
  { kind: "operator-not-permitted", right: "reveal", via: "access" },
  { kind: "cross-site" },
  { kind: "attempts-exceeded", retryAfterMs: 6_000 },
  { kind: "access-unavailable" },
  { kind: "control-plane-missing" },
  { kind: "control-plane-silent" },
  { kind: "unknown-rule" },
  { kind: "unknown-key" },
  { kind: "precondition-required" },
  { kind: "precondition-failed", etag: '"2"' },
  { kind: "idempotency-key-reused" },
  { kind: "rule-gone" },
  { kind: "rollback-replaced" },
  { kind: "changed-since", seq: 7 },
  { kind: "nothing-to-undo" },
  { kind: "rules-full", most: 16 },
  { kind: "rules-too-large", mostBytes: 32_768 },
  { kind: "recordings-full", most: 100, nextEnd: "2026-11-22T18:30:00.000Z" },
  { kind: "upgrade-required" },
  { kind: "ticket-invalid" },
  { kind: "tails-full" },
  { kind: "console-elsewhere", url: "https://admin.example.com/_headgate/" },
  { kind: "console-elsewhere", url: null },
  { kind: "console-missing" },
  { kind: "openapi-missing" },
];

const page = readPage(path);
const shown = [page, readPage("docs/reference/admin-api-errors.md")]
  .flatMap(({ blocks }) => blocks)
  .filter(({ language, info }) => language === "json" && info[0] === "problem")
  .map(({ text }) => JSON.parse(text) as unknown);

it("the pages about errors show every problem document and no other", () => {
  expect(shown).toEqual(failures.map(problemDetails));
});

it("the page about errors names the Proxy-Status error of every problem", () => {
  const titles = new Map(rowsOf(page, "error").map(([error = "", problems = ""]) => [error, problems]));
  // Responses of /check have no Proxy-Status field.
  const end = failures.findIndex(({ kind }) => kind === "unauthorized");
  const without = ["url-malformed", "configuration-invalid", "configuration-missing", "reservations-full"];
  const used = failures
    .slice(0, end)
    .filter(({ kind }) => !without.includes(kind))
    .map((failure) => {
      const error = proxyErrorOf(problemResponse(failure)) ?? "";
      return [error, problemDetails(failure).status] as const;
    });
  const missing = used.filter(([error, status]) => !titles.get(`\`${error}\``)?.includes(String(status)));
  expect(missing).toEqual([]);
});
