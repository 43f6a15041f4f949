/**
 * The invariants of a simulation. A simulation counts how often it has checked each invariant, and collects the
 * violations.
 */

export const invariants = [
  "statistics: the control plane has at most what isolates recorded",
  "statistics: after the last beats, the control plane has exactly what isolates recorded",
  "spends: a request is charged at most once",
  "spends: an object has counted exactly what its replies charged",
  "stale calls: no call is decided by older policy rules than an earlier one",
  "stale calls: a refused call gets rules that are newer than its own",
  "versions: one version of a policy has one text",
  "key rules: a decision obeys the rules that its object has received",
  "key rules: a decision obeys each rule that was confirmed to the operator",
  "key rules: a push contains each confirmed rule, and none that was removed",
  "key rules: a rule ends on its millisecond by the object's clock",
  "key rules: in the end each is applied",
  "isolates: rules never become older",
  "isolates: in the end they have the rules of the control plane",
  "precedence: an isolate resolves a key as the table states",
  "precedence: the limits that decide are those that the table states",
  "fail static: a decision is the same without the control plane",
  "fail static: after its return, isolates with traffic have its rules",
] as const;

export type Invariant = (typeof invariants)[number];

/** A failed simulation reports its first violations only, since later ones follow from them. */
const mostViolations = 5;

export class Checks<Name extends string = Invariant> {
  readonly counts = new Map<Name, number>();
  readonly violations: string[] = [];

  check(invariant: Name, holds: boolean, describe: () => string): void {
    this.counts.set(invariant, (this.counts.get(invariant) ?? 0) + 1);
    if (holds || this.violations.length >= mostViolations) return;
    this.violations.push(`${invariant}: ${describe()}`);
  }

  /** Adds the counts of another simulation to these counts. */
  add({ counts }: Checks<Name>): void {
    for (const [invariant, count] of counts) {
      this.counts.set(invariant, (this.counts.get(invariant) ?? 0) + count);
    }
  }
}
