/** Requests of local commands to the admin API of a running Headgate. Reads no file and no environment. */
import { jsonOrNull } from "../validation/json.ts";
import { didYouMean, isRecord } from "../validation/problems.ts";
import { CommandError, messageOf } from "./command.ts";

/** The admin API, and the token for it. */
export interface AdminApi {
  /** Ends with `/api`. */
  readonly url: string;
  readonly token: string;
}

export interface AdminRequest {
  readonly method: "GET" | "POST";
  /** Sent as JSON. */
  readonly body?: object;
  /** Default: 10,000. */
  readonly timeoutMs?: number;
}

export interface AdminAnswer {
  readonly status: number;
  readonly text: string;
  /** Null when the body is not JSON. */
  readonly json: unknown;
  readonly isProblem: boolean;
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

/** @throws CommandError when no server answers */
export async function askAdmin(
  { url, token }: AdminApi,
  path: string,
  { method, body, timeoutMs = 10_000 }: AdminRequest,
): Promise<AdminAnswer> {
  const headers = {
    ...(body !== undefined && { "Content-Type": "application/json" }),
    Authorization: `Bearer ${token}`,
  };
  try {
    const response = await fetch(url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs),
      // A token must not follow a redirection to another host.
      redirect: "manual",
    });
    const text = await response.text();
    const type = response.headers.get("Content-Type") ?? "";
    return {
      status: response.status,
      text,
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

/**
 * The meaning of an answer that is no success, and what to do.
 * @param policy the policy that the request names
 */
export async function adminProblemText(
  api: AdminApi,
  policy: string,
  { status, json, isProblem }: AdminAnswer,
): Promise<string> {
  const noApi = `No admin API answers at ${api.url} (status ${status}). It needs ADMIN_TOKENS and the binding CONTROL_PLANE.`;
  if (!isProblem || !isRecord(json)) return noApi;
  const { title, detail } = json;
  if (status === 401) {
    return "The server does not accept the token. Expected a token of its ADMIN_TOKENS, in --token or HEADGATE_ADMIN_TOKEN.";
  }
  if (status === 403) return "The token lacks the right read: see its field may in ADMIN_TOKENS.";
  if (status === 404) return (await unknownPolicyText(api, policy)) ?? String(detail ?? title);
  return `${String(title)}: ${String(detail)}`;
}

/** Null when the policy exists, or when the policies cannot be listed. */
async function unknownPolicyText(api: AdminApi, name: string): Promise<string | null> {
  const { json } = await askAdmin(api, "/policies", { method: "GET" });
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
