/** Answers requests while something is not configured yet: browsers get the setup page, other clients a problem. */
import { parseAccept } from "hono/utils/accept";
import { type Failure, problemAnswer, problemResponse, responseOf } from "../wire/problems.ts";
import { renderPage, type Setting, type SetupPage } from "./page.ts";

/** The answer to a failure that the setup page explains, or the problem details of any other failure. */
export async function setupAnswer(request: Request, failure: Failure): Promise<Response> {
  const page = prefersPage(request) ? pageFor(failure) : null;
  if (page === null) return problemResponse(failure);
  const answer = problemAnswer(failure);
  const { body, fields } = await pageAnswer(page);
  return responseOf({ ...answer, headers: { ...answer.headers, ...fields }, body });
}

/**
 * The answer to a request that the demo limits allowed: the setup page with the rate limit fields of the response.
 * @param charged the response with those fields, which clients other than browsers get
 */
export async function demoAnswer(request: Request, charged: Response): Promise<Response> {
  if (!prefersPage(request)) return charged;
  const limitFields = [...charged.headers].filter(([name]) => name.startsWith("ratelimit"));
  const { body, fields } = await pageAnswer({
    title: "Headgate runs with demo limits",
    state: [
      "Neither limits nor an origin are set yet. Meanwhile, each client address is allowed 5 requests per 10 seconds: reload this page, and the sixth request is denied with the status 429.",
      "This response says how many are left:",
    ],
    fields: limitFields.map(([name, value]) => `${fieldNames[name] ?? name}: ${value}`),
    missing: ["LIMITS", "ORIGIN"],
  });
  const headers = { "Cache-Control": "no-store", ...Object.fromEntries(limitFields), ...fields };
  return new Response(body, { headers });
}

/** The rate limit fields as the specification spells them. */
const fieldNames: Readonly<Record<string, string>> = {
  "ratelimit-policy": "RateLimit-Policy",
  ratelimit: "RateLimit",
};

function pageFor(failure: Failure): SetupPage | null {
  if (failure.kind === "origin-unset") {
    return {
      title: "Headgate has no origin",
      state: ["Headgate answers calls of /check. It has nowhere to forward other requests to."],
      missing: ["ORIGIN"],
    };
  }
  if (failure.kind !== "configuration-missing") return null;
  return {
    title: "Headgate is not configured yet",
    state: ["No request is charged or forwarded until the following is set."],
    missing: failure.problems.map(({ variable }) => settings[variable] ?? "LIMITS").toReversed(),
  };
}

/** The setting that the page explains for a missing variable. */
const settings: Readonly<Record<string, Setting>> = { KEY_SECRET: "KEY_SECRET" };

async function pageAnswer(page: SetupPage): Promise<{
  readonly body: string;
  readonly fields: Readonly<Record<string, string>>;
}> {
  const nonce = crypto.randomUUID();
  const policy = [
    "default-src 'none'",
    `style-src 'nonce-${nonce}'`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  const fields = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": policy.join("; "),
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
    "Referrer-Policy": "no-referrer",
  };
  return { body: await renderPage(page, nonce), fields };
}

/** Whether a request is one for a page, as those of browsers are: it asks for HTML before JSON, and not just anything. */
function prefersPage({ method, headers }: Request): boolean {
  if (method !== "GET" && method !== "HEAD") return false;
  const types = parseAccept(headers.get("Accept") ?? "").filter(({ q }) => q > 0);
  const known = types.find(({ type }) => type === "text/html" || /\bjson$/.test(type));
  return known?.type === "text/html";
}
