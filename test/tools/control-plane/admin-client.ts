/** Calls the admin API and `/check` of one isolate. */

export const adminToken = "the-admin-token-of-the-measurement";
export const checkToken = "the-check-token-of-the-measurement";

/** The API answers within its deadline, even while the control plane does not answer. */
const longestMs = 10_000;

export interface AdminAnswer {
  readonly status: number;
  /** The `ETag`, for use in `If-Match`. */
  readonly etag: string;
  readonly body: unknown;
}

export interface AdminCallOptions {
  readonly body?: object;
  readonly etag?: string;
  readonly token?: string;
  readonly adminPath?: string;
}

/** @param path relative to `/api`, such as `/rules` */
export async function callAdmin(
  url: URL,
  method: string,
  path: string,
  { body, etag, token = adminToken, adminPath = "/_headgate" }: AdminCallOptions = {},
): Promise<AdminAnswer> {
  const response = await fetch(new URL(`${adminPath}/api${path}`, url), {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(etag !== undefined && { "if-match": etag }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(longestMs),
  });
  const text = await response.text();
  const isJson = /[/+]json\b/.test(response.headers.get("content-type") ?? "");
  const read: unknown = isJson ? JSON.parse(text) : text;
  return { status: response.status, etag: response.headers.get("etag") ?? "", body: read };
}

/** @throws Error unless the call succeeds */
export async function change(...call: Parameters<typeof callAdmin>): Promise<AdminAnswer> {
  const answer = await callAdmin(...call);
  if (answer.status >= 300) {
    const [, method, path] = call;
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  }
  return answer;
}

/** Replaces the limits of a policy by creating a rule. */
export async function setLimits(url: URL, policy: string, limits: string): Promise<void> {
  const { etag } = await change(url, "GET", `/policies/${policy}`);
  await change(url, "PATCH", `/policies/${policy}`, { body: { limits }, etag });
}

/** Sends a check that charges its key, and returns the decision. */
export async function check(url: URL, body: object): Promise<CheckAnswer> {
  const response = await fetch(new URL("/check", url), {
    method: "POST",
    headers: { authorization: `Bearer ${checkToken}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.json<CheckAnswer>();
}

export interface CheckAnswer {
  readonly allowed?: boolean;
  readonly reason?: string;
  readonly limits?: readonly { readonly limit: number }[];
}
