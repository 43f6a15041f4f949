/** Answers requests while something is not configured yet: browsers get a page that shows no configured value, other clients a problem. */
import { parseAccept } from "hono/utils/accept";
import { type Failure, problemAnswer, problemResponse, responseOf } from "./wire/problems.ts";
import { html, raw } from "hono/html";

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
    missing: failure.problems.map(({ variable }) => (variable === "KEY_SECRET" ? "KEY_SECRET" : "LIMITS")).toReversed(),
  };
}

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

/** Whether a request asks for a page, as browsers do: it names HTML before JSON. Accepting any type does not count. */
function prefersPage({ method, headers }: Request): boolean {
  if (method !== "GET" && method !== "HEAD") return false;
  const types = parseAccept(headers.get("Accept") ?? "").filter(({ q }) => q > 0);
  const known = types.find(({ type }) => type === "text/html" || /\bjson$/.test(type));
  return known?.type === "text/html";
}

/** A variable that the page explains. `LIMITS` stands for `POLICIES`, too. */
type Setting = keyof typeof purposes;

interface SetupPage {
  readonly title: string;
  /** Paragraphs below the title. */
  readonly state: readonly string[];
  /** Header fields of the response, which the page also shows. */
  readonly fields?: readonly string[];
  readonly missing: readonly Setting[];
}

/** Example values, in the form that the dashboard and `wrangler.toml` accept. */
const examples = { LIMITS: "100/minute; 10/second", ORIGIN: "https://api.example.com" };

const purposes = {
  KEY_SECRET:
    "The secret that turns client addresses and other keys into HMACs, in which form alone they leave the Worker. It has no default, because anyone could guess a default.",
  LIMITS:
    "The requests that each client address is allowed. For several policies, other keys and other strategies, set POLICIES instead.",
  ORIGIN:
    'The service that gets allowed requests, or "route" if the Worker is on a route of the host of that service. Leave it out if you only call /check.',
};

/** Without it, browsers request an icon, which the demo limits would charge. */
const emptyIcon = html`<link rel="icon" href="data:," />`;

const style = `
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; }
dt { margin-top: 0.75rem; font-weight: 600; }
dd { margin: 0; }
pre, code { font-family: ui-monospace, monospace; font-size: 0.95em; }
pre { margin: 0.25rem 0; padding: 0.5rem 0.75rem; border: 1px solid; border-radius: 0.4rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
`;

type Markup = ReturnType<typeof html>;

/** @param nonce allows the style sheet of the page in its Content Security Policy */
async function renderPage(page: SetupPage, nonce: string): Promise<string> {
  const { title, state, fields = [], missing } = page;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        ${emptyIcon}
        <style nonce="${nonce}">
          ${raw(style)}
        </style>
      </head>
      <body>
        <main>
          <h1>${title}</h1>
          ${state.map((text) => html`<p>${text}</p>`)}
          ${fields.length === 0 ? "" : html`<pre>${fields.join("\n")}</pre>`} ${missing.map(section)}
        </main>
      </body>
    </html> `;
}

const section = (setting: Setting): Markup =>
  html`<section>
    <h2>Set ${setting}</h2>
    <p>${purposes[setting]}</p>
    <dl>${setting === "KEY_SECRET" ? secretSteps(setting) : variableSteps(setting)}</dl>
  </section> `;

const dashboardPath = "Workers & Pages, your Worker, Settings, Variables and Secrets, Add";

const secretSteps = (name: string): Markup =>
  html`<dt>On your machine, in .dev.vars</dt>
    <dd>
      <code>npm start</code> creates the file. For <code>npx wrangler dev</code> alone, write it yourself, and then
      start the command again:
      <pre>${name}="at least 32 random characters"</pre>
    </dd>
    <dt>On Cloudflare, in a terminal in your copy of the repository</dt>
    <dd>
      <pre>npx wrangler secret put ${name}</pre>
      wrangler asks for the value: at least 32 random characters, such as the output of
      <code>openssl rand -base64 32</code>.
    </dd>
    <dt>Or in the Cloudflare dashboard</dt>
    <dd>${dashboardPath}: type Secret, name <code>${name}</code>. It takes effect with Deploy.</dd> `;

const variableSteps = (name: keyof typeof examples): Markup =>
  html`<dt>In wrangler.toml, under [vars]</dt>
    <dd>
      <pre>${name} = "${examples[name]}"</pre>
      Then run <code>npm run deploy</code>, or push the change if Cloudflare builds your repository.
    </dd>
    <dt>Or in the Cloudflare dashboard</dt>
    <dd>
      ${dashboardPath}: type Text, name <code>${name}</code>, value <code>${examples[name]}</code>. The next deployment
      replaces it by what wrangler.toml has.
    </dd> `;
