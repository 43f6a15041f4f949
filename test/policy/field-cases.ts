/** Types and checks for tables of values that a policy's field accepts or rejects. */
import { describe, expect, it } from "vitest";
import { resolveKey, type KeyResolution } from "../../src/policy/resolve-key.ts";
import { requestTo } from "./harness.ts";
import { configOf, problemsIn } from "./parsed.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Values that one place of a field rejects with the same error message. */
export interface Rejected {
  /** The place within the field, such as `.within`; by default the field itself. */
  readonly at?: string;
  readonly accepted: RegExp;
  readonly values: readonly unknown[];
  /** The field with a value at that place; by default, the value itself. */
  readonly of?: (value: unknown) => unknown;
}

export interface Field {
  readonly field: string;
  /** Other fields of the policy that this field needs. */
  readonly beside?: Fields;
  readonly good: readonly unknown[];
  /** Values, and the effect of each policy on a request from 203.0.113.7. */
  readonly resolved?: readonly (readonly [value: unknown, kind: KeyResolution["kind"]])[];
  readonly bad: readonly Rejected[];
}

const variablesOf = (fields: Fields): Fields => ({
  KEY_SECRET: "the tests' secret",
  JWT_KEY: "a secret of at least thirty-two bytes",
  POLICIES: [{ name: "a", limits: "5/minute", ...fields }],
});

interface ReportedProblem {
  readonly variable: string;
  readonly field: string;
  readonly accepted: string;
}

/** The problems of a policy with these fields, without values, as in the Worker's public error response. */
export const reportedProblems = (fields: Fields): ReportedProblem[] =>
  problemsIn(variablesOf(fields)).map(({ variable, field, accepted }) => ({
    variable,
    field,
    accepted,
  }));

/** The part of an error message that depends on the kind of mistake. It quotes no value. */
const hint = /(?:; did you mean \w+\?|, in digits such as 100 or 1_000|; (?:write|":name" stands|a pattern has) .*)$/;

const withoutHints = (problems: readonly ReportedProblem[]): ReportedProblem[] =>
  problems.map((each) => ({ ...each, accepted: each.accepted.replace(hint, "") }));

const shown = (value: unknown): string => {
  const text = typeof value === "number" ? String(value) : (JSON.stringify(value) ?? "nothing");
  return text.length > 70 ? `${text.slice(0, 70)}…` : text;
};

export function describeField({ field, beside = {}, good, resolved = [], bad }: Field): void {
  describe(`the policy field ${field}`, () => {
    const accepted = good.map((value) => [shown(value), value] as const);
    it.for(accepted)(`${field} accepts %s`, ([, value]) => {
      expect(reportedProblems({ ...beside, [field]: value })).toEqual([]);
    });

    const applied = resolved.map(([value, kind]) => [shown(value), kind, value] as const);
    it.for(applied)(`${field} = %s resolves a request to "%s"`, ([, kind, value]) => {
      const { policies } = configOf(variablesOf({ ...beside, [field]: value }));
      const request = requestTo("/", { headers: { "CF-Connecting-IP": "203.0.113.7" } });
      expect(policies.map((policy) => resolveKey(policy, request, {}).kind)).toEqual([kind]);
    });

    const rejected = bad.flatMap(({ at = "", accepted: message, values, of = (value) => value }) =>
      values.map((value) => {
        const another = of(values.find((each) => each !== value));
        return [`${field}${at}`, shown(value), { value: of(value), another, message }] as const;
      }),
    );
    it.for(rejected)("%s rejects %s", ([place, , { value, another, message }]) => {
      const problems = withoutHints(reportedProblems({ ...beside, [field]: value }));
      expect(problems).toEqual([
        {
          variable: "POLICIES",
          field: `[0].${place}`,
          accepted: expect.stringMatching(message),
        },
      ]);
      // The message is the same for another value, so it reveals nothing about this one.
      expect(withoutHints(reportedProblems({ ...beside, [field]: another }))).toEqual(problems);
    });
  });
}
