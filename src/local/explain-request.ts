/** The request of `npm run explain` to the admin API, and what its answers mean. Reads no file and no environment. */
import { jsonOrNull } from "../validation/json.ts";
import { didYouMean, isRecord } from "../validation/problems.ts";
import { CommandError, messageOf } from "./command.ts";

export interface ExplainValues {
  readonly policy?: string | undefined;
  readonly key?: readonly string[] | undefined;
  readonly id?: string | undefined;
  readonly tenant?: string | undefined;
  readonly attribute?: readonly string[] | undefined;
}

/** The admin API, and the token for it. */
export interface AdminApi {
  /** Ends with `/api`. */
  readonly url: string;
  readonly token: string;
}

/**
 * The body of the request.
 * @throws CommandError when the options do not fit together
 */
export function explainBody(values: ExplainValues): object {
  const { policy, key = [], id, tenant, attribute = [] } = values;
  if (policy === undefined) {
    throw new CommandError("--policy is missing: expected the name of a policy.");
  }
  if (id !== undefined && key.length > 0) {
    throw new CommandError("Expected either --key or --id, got both.");
  }
  // The API reads null as a part that a request does not have.
  const parts = key.map((part) => (part === "" ? null : part));
  const attributes = Map.groupBy(attribute.map(pairOf), ([name]) => name);
  return {
    policy,
    ...(id !== undefined && { id }),
    ...(parts.length > 0 && { key: parts }),
    ...(tenant !== undefined && { tenant }),
    ...(attributes.size > 0 && {
      attributes: Object.fromEntries(
        [...attributes].map(([name, pairs]) => {
          const texts = pairs.map(([, value]) => value);
          return [name, texts.length === 1 ? texts[0] : texts];
        }),
      ),
    }),
  };
}

function pairOf(text: string): [name: string, value: string] {
  const [name = "", ...rest] = text.split("=");
  if (name !== "" && rest.length > 0) return [name, rest.join("=")];
  throw new CommandError(`--attribute: expected name=value such as country=DE, got "${text}"`);
}

/** Whether a URL is of this machine, so that a token of `.dev.vars` may be sent to it. */
export function isLocalUrl(url: URL): boolean {
  const { hostname } = url;
  return /^(?:127\.\d+\.\d+\.\d+|\[::1\]|(?:.+\.)?localhost)$/.test(hostname);
}

/** @throws CommandError when the text is not an http or https URL */
export function serverUrl(text: string): URL {
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol)) return url;
  throw new CommandError(`--url: expected a URL such as http://localhost:8787, got "${text}"`);
}

/**
 * The explanation as lines for a terminal.
 * @throws CommandError that says what to do, when there is no explanation
 */
export async function fetchExplanation(api: AdminApi, body: object): Promise<readonly string[]> {
  const answer = await send(api, "/keys/explain", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const { status, json } = answer;
  const text: unknown = isRecord(json) ? json["text"] : undefined;
  if (status === 200 && Array.isArray(text)) return text.map(String);
  throw new CommandError(await problemText(api, body, answer));
}

interface Answer {
  readonly status: number;
  /** Null when the body is not JSON. */
  readonly json: unknown;
  readonly isProblem: boolean;
}

const timeoutMs = 10_000;

async function send(
  { url, token }: AdminApi,
  path: string,
  init: {
    readonly method: string;
    readonly headers?: Record<string, string>;
    readonly body?: string;
  },
): Promise<Answer> {
  const headers = { ...init.headers, Authorization: `Bearer ${token}` };
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    // A token must not follow a redirection to another host.
    const response = await fetch(url + path, { ...init, headers, signal, redirect: "manual" });
    const text = await response.text();
    const type = response.headers.get("Content-Type") ?? "";
    return {
      status: response.status,
      json: jsonOrNull(text),
      isProblem: type.startsWith("application/problem+json"),
    };
  } catch (error) {
    const { origin } = new URL(url);
    throw new CommandError(
      `No answer from ${origin}: ${reasonOf(error)}.\nStart Headgate with npm start, or name another server with --url.`,
      { cause: error },
    );
  }
}

/** The reason that Node's fetch hides in the cause of its error. */
function reasonOf(error: unknown): string {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  const code: unknown = cause instanceof Error ? Reflect.get(cause, "code") : undefined;
  return typeof code === "string" ? code : messageOf(error);
}

async function problemText(api: AdminApi, body: object, answer: Answer): Promise<string> {
  const { status, json, isProblem } = answer;
  const noApi = `No admin API answers at ${api.url} (status ${status}). It needs ADMIN_TOKENS and the binding CONTROL_PLANE.`;
  if (!isProblem || !isRecord(json)) return noApi;
  const { title, detail, errors } = json;
  if (status === 401) {
    return "The server does not accept the token. Expected a token of its ADMIN_TOKENS, in --token or HEADGATE_ADMIN_TOKEN.";
  }
  if (status === 403) return "The token lacks the right read: see its field may in ADMIN_TOKENS.";
  if (status === 404) return (await unknownPolicyText(api, body)) ?? String(detail ?? title);
  const invalid = Array.isArray(errors) ? errors.filter(isRecord) : [];
  if (invalid.length === 0) return `${String(title)}: ${String(detail)}`;
  return invalid
    .map(({ field, accepted }) => `${optionOf(String(field))}: expected ${String(accepted)}`)
    .join("\n");
}

/** The option that gives a field of the body. */
const optionOf = (field: string): string =>
  field.startsWith("attributes") ? field.replace("attributes.", "--attribute ") : `--${field}`;

/** Null when the policy exists, or when the policies cannot be listed. */
async function unknownPolicyText(api: AdminApi, body: object): Promise<string | null> {
  const name = String(Reflect.get(body, "policy"));
  const { json } = await send(api, "/policies", { method: "GET" });
  const names = policyNames(json);
  if (names.length === 0 || names.includes(name)) return null;
  const expected = `one of ${names.map((each) => `"${each}"`).join(", ")}`;
  return `--policy: expected ${expected}, got "${name}"${didYouMean(name, names)}`;
}

/** The names in the answer of `GET /api/policies`; none in any other answer. */
function policyNames(json: unknown): string[] {
  const list: unknown = isRecord(json) ? json["policies"] : [];
  return (Array.isArray(list) ? list : []).flatMap((each: unknown) =>
    isRecord(each) && typeof each["name"] === "string" ? [each["name"]] : [],
  );
}
