/** What a caller of `/check` asks for: read from a query or a JSON body, every wrong field named. */
import * as v from "valibot";
import { mostKeyParts, type Policy, readPolicy } from "../config/index.ts";
import { fields, isRecord, problemsOf } from "../strategies/index.ts";
import type { Failure, FieldError } from "./problems.ts";

export interface Check {
  readonly policy?: string | undefined;
  /** One text for each part of the policy's key. */
  readonly key?: readonly string[] | undefined;
  readonly cost: number;
  /** The status of a denial, for gateways that look at nothing else. */
  readonly deny?: 403 | 429 | undefined;
}

/** A check of limits that the caller brings. */
export interface AdhocCheck extends Check {
  /** The limits as a policy, with a policy's defaults; whom it charges is not its key's to say, but the caller's. */
  readonly adhoc: Policy;
  readonly key: readonly string[];
}

const longestKeyBytes = 1024;
const greatestCost = 1_000_000;

const acceptedKey = `a well-formed text of 1 to ${longestKeyBytes} bytes in UTF-8, or a list of such texts`;
const acceptedCost = `an integer from 0 to ${greatestCost}`;
const acceptedDeny = '"403" or "429"';
const acceptedPolicy = "the name of a policy";

// A lone surrogate has no UTF-8: two keys that differ only there would be charged as one.
const keyText = v.pipe(
  v.string(acceptedKey),
  v.check((text) => text.isWellFormed() && text !== "", acceptedKey),
  v.maxBytes(longestKeyBytes, acceptedKey),
);

const requiredKey = v.union(
  [
    v.pipe(
      keyText,
      v.transform((text) => [text]),
    ),
    v.pipe(
      v.array(keyText, acceptedKey),
      v.minLength(1, acceptedKey),
      v.maxLength(mostKeyParts, `at most ${mostKeyParts} texts`),
    ),
  ],
  acceptedKey,
);

const key = v.optional(requiredKey);

const policy = v.optional(v.string(acceptedPolicy));

const cost = v.pipe(
  v.number(acceptedCost),
  v.safeInteger(acceptedCost),
  v.minValue(0, acceptedCost),
  v.maxValue(greatestCost, acceptedCost),
);

const costText = v.pipe(
  v.string(acceptedCost),
  v.regex(/^\d{1,7}$/, acceptedCost),
  v.transform(Number),
  v.maxValue(greatestCost, acceptedCost),
);

const deny = v.optional(
  v.pipe(
    v.picklist(["403", "429"], acceptedDeny),
    v.transform((status) => (status === "403" ? 403 : 429)),
  ),
);

/** What is in them is for `readPolicy`. */
const anything = v.optional(v.unknown());
const nothing = (where: string) => v.optional(v.never(`nothing ${where}`));

const spendBody = fields({
  policy,
  key,
  cost: v.optional(cost, 1),
  limits: anything,
  strategy: nothing("without limits"),
});
const adhocBody = fields({
  policy: nothing("beside limits"),
  key: requiredKey,
  cost: v.optional(cost, 1),
  limits: anything,
  strategy: anything,
});
const spendQuery = fields({ deny });
const lookQuery = fields({ policy, key, cost: v.optional(costText, "1"), deny });
const forgetQuery = fields({ policy, key });

type Queries = Readonly<Record<string, string[]>>;

/** What `GET /check` looks at. */
export function readLook(queries: Queries): Check | Failure {
  const parsed = v.safeParse(lookQuery, valuesOf(queries));
  return parsed.success ? parsed.output : invalidFields(parsed.issues);
}

/** What `DELETE /check` forgets. */
export function readForget(queries: Queries): Check | Failure {
  const parsed = v.safeParse(forgetQuery, valuesOf(queries));
  return parsed.success ? { cost: 0, ...parsed.output } : invalidFields(parsed.issues);
}

/** What `POST /check` spends: a JSON body, with `deny` in the query. */
export async function readSpend(
  request: Request,
  queries: Queries,
): Promise<Check | AdhocCheck | Failure> {
  const type = request.headers.get("Content-Type") ?? "";
  if (!/^application\/json\s*(?:;|$)/i.test(type)) return { kind: "body-of-other-type" };
  const options = v.safeParse(spendQuery, valuesOf(queries));
  if (!options.success) return invalidFields(options.issues);
  const body = await jsonOf(request);
  if (body === undefined) return { kind: "body-malformed" };
  const { deny: denyStatus } = options.output;
  if (isRecord(body) && body["limits"] !== undefined) return readAdhoc(body, denyStatus);
  const parsed = v.safeParse(spendBody, body);
  return parsed.success ? { ...parsed.output, deny: denyStatus } : invalidFields(parsed.issues);
}

function readAdhoc(body: Record<string, unknown>, denyStatus: Check["deny"]): AdhocCheck | Failure {
  const { limits, strategy } = body;
  const parsed = v.safeParse(adhocBody, body);
  const errors = errorsOf(parsed.issues ?? []);
  const adhoc = readPolicy("", "", { name: "adhoc", limits, strategy }, ({ field, accepted }) => {
    // Of a text that repeats a mistake each part tells of it, all in the same words.
    const isTold = errors.some((error) => error.field === field && error.accepted === accepted);
    if (!isTold) errors.push({ field, accepted });
  });
  if (!parsed.success || adhoc === null) return { kind: "fields-invalid", errors };
  return { adhoc, key: parsed.output.key, cost: parsed.output.cost, deny: denyStatus };
}

async function jsonOf(request: Request): Promise<unknown> {
  try {
    // Bytes that are no UTF-8 must not be read as replacement characters: different keys would be charged as one.
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(
      await request.arrayBuffer(),
    );
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** A parameter that stands once as its value; one that is repeated as a list, which only `key` accepts. */
function valuesOf(queries: Queries): Record<string, string | string[] | undefined> {
  const entries = Object.entries(queries);
  return Object.fromEntries(
    entries.map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  );
}

const invalidFields = (issues: readonly v.BaseIssue<unknown>[]): Failure => ({
  kind: "fields-invalid",
  errors: errorsOf(issues),
});

function errorsOf(issues: readonly v.BaseIssue<unknown>[]): FieldError[] {
  return problemsOf("", "", issues).map(({ field, accepted }) => ({
    field: field === "" ? "body" : field,
    accepted,
  }));
}
