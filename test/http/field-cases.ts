/** Fields of a policy, with values that they take and values that they refuse, through the whole Worker. */
import { describe, expect, it } from "vitest";
import { from, headgate } from "./harness.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Several values that are refused at one place of a field, in the same words. */
export interface Refused {
  /** Within the field, as `.within`; the field itself when left out. */
  readonly at?: string;
  readonly accepted: RegExp;
  readonly values: readonly unknown[];
  /** The whole field with such a value at its place. */
  readonly of?: (value: unknown) => unknown;
}

export interface Field {
  readonly field: string;
  /** Other fields, without which it has no meaning. */
  readonly beside?: Fields;
  /** Forwarded to the origin, but for those with a status of their own. */
  readonly good: readonly unknown[];
  readonly answered?: readonly (readonly [value: unknown, status: number])[];
  readonly bad: readonly Refused[];
}

const visitor = from("203.0.113.7");

/** A Worker with one policy of these fields. */
const one = (fields: Fields): ReturnType<typeof headgate> =>
  headgate({
    JWT_KEY: "a secret of at least thirty-two bytes",
    POLICIES: [{ name: "a", limits: "5/minute", ...fields }],
  });

interface Problem {
  readonly variable: string;
  readonly field: string;
  readonly accepted: string;
}

/** What a Worker whose configuration is broken says of it, to anyone. */
export async function problemsOf(fields: Fields): Promise<{ errors: Problem[]; text: string }> {
  const response = await one(fields).send("/", visitor);
  expect(response.status).toBe(500);
  expect(response.headers.get("Content-Type")).toBe("application/problem+json");
  const text = await response.text();
  const { errors } = JSON.parse(text) as { errors: Problem[] };
  return { errors, text };
}

/** What a problem adds for some mistakes, and which quotes no value. */
const hint =
  /(?:; did you mean \w+\?|, in digits such as 100 or 1_000|; (?:write|":name" stands|a query is) .*)$/;

/** The answer as it would be without its hints. */
function withoutHints({ errors, text }: Awaited<ReturnType<typeof problemsOf>>) {
  const left = errors.map((each) => ({ ...each, accepted: each.accepted.replace(hint, "") }));
  const answer: unknown = JSON.parse(text);
  return { errors: left, text: JSON.stringify({ ...Object(answer), errors: left }) };
}

const shown = (value: unknown): string => {
  const text = typeof value === "number" ? String(value) : (JSON.stringify(value) ?? "nothing");
  return text.length > 70 ? `${text.slice(0, 70)}…` : text;
};

export function describeField({ field, beside = {}, good, answered = [], bad }: Field): void {
  describe(`the field ${field}`, () => {
    const taken = good.map((value) => [shown(value), value] as const);
    it.for(taken)("may be %s", async ([, value]) => {
      const response = await one({ ...beside, [field]: value }).send("/", visitor);
      expect(response.status).toBe(200);
      expect(await response.json()).toMatchObject({ url: "https://origin.example/" });
    });

    const own = answered.map(([value, status]) => [shown(value), status, value] as const);
    it.for(own)("may be %s, which answers %i", async ([, status, value]) => {
      const response = await one({ ...beside, [field]: value }).send("/", visitor);
      expect(response.status).toBe(status);
    });

    const refused = bad.flatMap(({ at = "", accepted, values, of = (value) => value }) =>
      values.map((value) => {
        const another = of(values.find((each) => each !== value));
        return [at, shown(value), { value: of(value), another, accepted }] as const;
      }),
    );
    it.for(refused)("%s may not be %s", async ([at, , { value, another, accepted }]) => {
      const problems = withoutHints(await problemsOf({ ...beside, [field]: value }));
      const place = { variable: "POLICIES", field: `[0].${field}${at}` };
      expect(problems.errors).toEqual([{ ...place, accepted: expect.stringMatching(accepted) }]);
      // An answer that is the same for another value gives nothing of this one away.
      const others = withoutHints(await problemsOf({ ...beside, [field]: another }));
      expect(problems.text).toBe(others.text);
    });
  });
}
