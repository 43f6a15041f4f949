/** The request of `npm run explain` to the admin API, and what its answers mean. Reads no file and no environment. */
import { isRecord } from "../validation/problems.ts";
import { type AdminApi, adminProblemText, askAdmin } from "./admin-api.ts";
import { CommandError } from "./command.ts";

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

/** The option that gives a field of the body. */
const optionOf = (field: string): string =>
  field.startsWith("attributes") ? field.replace("attributes.", "--attribute ") : `--${field}`;
