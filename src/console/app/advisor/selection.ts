/** The selected candidate in the URL, and the limit that the slider gives it. */
import type { ShownAdvice, ShownCandidate } from "../replay/messages.ts";
import type { Query } from "../shell/route.ts";

/** "sliding-log 120/60000": strategy, units and window. */
const nameOf = ({ strategy, limits: [first] }: ShownCandidate): string =>
  `${strategy} ${first?.limit ?? 0}/${first?.windowMs ?? 0}`;

const familyOf = (name: string): string => name.replace(/ \d+\//, " ");

/** A goal that changes has other candidates. */
export const noSelection: Query = { candidate: undefined, limit: undefined };

export const queryOf = (candidate: ShownCandidate, units?: number): Query => ({
  candidate: nameOf(candidate),
  limit: units === candidate.limits[0]?.limit ? undefined : units,
});

/**
 * Index of the candidate of the URL. Newer samples may have given it another number of units. Without one, it is that of the
 * recommendation.
 */
export function chosenIn({ candidates, recommendation }: ShownAdvice, query: URLSearchParams): number | null {
  const chosen = query.get("candidate") ?? "";
  const exact = candidates.findIndex((candidate) => nameOf(candidate) === chosen);
  if (exact !== -1) return exact;
  const similar = candidates.findIndex((candidate) => familyOf(nameOf(candidate)) === familyOf(chosen));
  if (similar !== -1) return similar;
  if (recommendation.kind === "recommended") return recommendation.candidate;
  return candidates.length > 0 ? 0 : null;
}

/** Units per window of the slider. */
export function unitsIn({ limits }: ShownCandidate, query: URLSearchParams): number {
  const own = limits[0]?.limit ?? 1;
  const given = Number(query.get("limit") ?? own);
  return Number.isSafeInteger(given) && given > 0 ? given : own;
}
