/** The arithmetic of the limits, divided between the page's first sentence and the details. */
import type { ExplainedLimit, Explanation } from "../api/answers.ts";

/** The beginning of the sentence, and the rest of it. */
function partsOf(sentence: string): readonly [total: string, rest: string] {
  const [, total = sentence, rest = ""] = /^(.+?)[:;] (.+)$/.exec(sentence) ?? [];
  return [total.replace(/\.$/, ""), rest];
}

/** The limits that deny, or the fullest one; none where no limit decides. */
function decidingLimits({ limits, reason }: Explanation): readonly ExplainedLimit[] {
  if (reason === "allow" || reason === "off" || reason === "deny" || reason === "ban") return [];
  const denying = limits.filter(({ allowed }) => !allowed);
  if (denying.length > 0) return denying;
  return limits.toSorted((one, other) => share(one) - share(other)).slice(0, 1);
}

const share = ({ remaining, capacity }: ExplainedLimit): number => remaining / capacity;

/** Such as "62 of 60 in the last minute." */
export const totalsText = (explanation: Explanation): string =>
  decidingLimits(explanation)
    .flatMap(({ sentence }) => (sentence === null ? [] : `${partsOf(sentence)[0]}.`))
    .join(" ");

export interface ArithmeticLine {
  readonly name: string;
  readonly text: string;
}

/**
 * The terms of each limit, such as "41 in this window and 43 × 0.49 of the one before; the next request fits in 3.2 s.", without
 * the total if the page's first sentence has it. Each limit always has a line, so that no line appears or vanishes as it counts.
 */
export function arithmeticLines(explanation: Explanation): readonly ArithmeticLine[] {
  const deciding = decidingLimits(explanation);
  return explanation.limits.map((limit) => {
    const { name, sentence } = limit;
    if (sentence === null) return { name, text: "The object of the key does not answer." };
    const [, rest] = partsOf(sentence);
    return { name, text: deciding.includes(limit) && rest !== "" ? rest : sentence };
  });
}
