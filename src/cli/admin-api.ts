/** Requests of local commands to the admin API of a running Headgate. Reads no file and no environment. */
import { CommandError, type CommandOptions } from "./command.ts";
import { sourceOptions } from "./configuration-source.ts";
import { NoAnswer, type ReceivedAnswer, sendRequest, type SentRequest } from "./request.ts";
import { isRecord } from "../validation/json.ts";
import { didYouMean } from "../validation/problems.ts";

export const tokenVariable = "HEADGATE_ADMIN_TOKEN";
export const localServer = "http://localhost:8787";

export const adminOptions = {
  token: {
    type: "string",
    value: "token",
    about: `A token with the right read; defaults to ${tokenVariable} or .dev.vars.`,
  },
  ...sourceOptions,
} as const satisfies CommandOptions;

/** The admin API, and the token for it. */
export interface AdminApi {
  /** Ends with `/api`. */
  readonly url: string;
  readonly token: string;
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
  { timeoutMs, ...request }: SentRequest & { readonly timeoutMs?: number } = {},
): Promise<ReceivedAnswer> {
  try {
    const bounds = timeoutMs === undefined ? {} : { timeoutMs };
    return await sendRequest(new URL(url + path), { ...request, token }, bounds);
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    const { origin } = new URL(url);
    throw new CommandError(
      `No answer from ${origin}: ${error.message}.\nStart Headgate with npm start, or name another server with --url.`,
      { cause: error },
    );
  }
}

/**
 * Explains an answer without success, and says what to do.
 * @param policy the policy that the request names
 */
export async function adminProblemText(
  api: AdminApi,
  policy: string,
  { status, json, isProblem }: ReceivedAnswer,
): Promise<string> {
  const noApi = `No admin API answers at ${api.url} (status ${status}). It needs ADMIN_TOKENS and the binding CONTROL_PLANE.`;
  if (!isProblem) return noApi;
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
  const { json } = await askAdmin(api, "/policies");
  const names = policyNames(json);
  if (names.length === 0 || names.includes(name)) return null;
  const expected = `one of ${names.map((each) => `"${each}"`).join(", ")}`;
  return `--policy: expected ${expected}, got "${name}"${didYouMean(name, names)}`;
}

/** The names in the answer of `GET /api/policies`; none in any other answer. */
const policyNames = ({ policies }: ReceivedAnswer["json"]): string[] =>
  (Array.isArray(policies) ? policies : []).flatMap((each: unknown) =>
    isRecord(each) && typeof each["name"] === "string" ? [each["name"]] : [],
  );

export interface ExplainValues {
  readonly policy?: string | undefined;
  readonly key?: readonly string[] | undefined;
  readonly id?: string | undefined;
  readonly tenant?: string | undefined;
  readonly attribute?: readonly string[] | undefined;
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
  const texts = [...attributes].map(([name, pairs]) => {
    const [first, ...others] = pairs.map(([, value]) => value);
    return [name, others.length === 0 ? first : [first, ...others]] as const;
  });
  return {
    policy,
    id,
    tenant,
    ...(parts.length > 0 && { key: parts }),
    ...(texts.length > 0 && { attributes: Object.fromEntries(texts) }),
  };
}

function pairOf(text: string): [name: string, value: string] {
  const [name = "", ...rest] = text.split("=");
  if (name !== "" && rest.length > 0) return [name, rest.join("=")];
  throw new CommandError(`--attribute: expected name=value such as country=DE, got "${text}"`);
}

/**
 * The explanation as lines for a terminal.
 * @throws CommandError that says what to do, when there is no explanation
 */
export async function fetchExplanation(api: AdminApi, body: object): Promise<readonly string[]> {
  const answer = await askAdmin(api, "/keys/explain", { method: "POST", body });
  const { status, json } = answer;
  const { text, errors } = json;
  if (status === 200 && Array.isArray(text)) return text.map(String);
  const invalid = status === 422 && Array.isArray(errors) ? errors.filter(isRecord) : [];
  throw new CommandError(
    invalid.length > 0
      ? invalid.map(({ field, accepted }) => `${optionOf(String(field))}: expected ${String(accepted)}`).join("\n")
      : await adminProblemText(api, String(Reflect.get(body, "policy")), answer),
  );
}

/** The command-line option that sets a field of the request body. */
const optionOf = (field: string): string =>
  field.startsWith("attributes") ? field.replace("attributes.", "--attribute ") : `--${field}`;
