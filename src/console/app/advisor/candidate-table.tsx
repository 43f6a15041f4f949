/** The candidates in numbers. Choosing one selects it for the slider. */
import { useId } from "preact/hooks";
import { type Column, Table } from "../parts/table.tsx";
import type { ShownAdvice, ShownCandidate } from "../replay/messages.ts";
import { countEstimateText, limitsLine, shareEstimateText } from "./texts.ts";

interface CandidateTableProps {
  readonly advice: ShownAdvice;
  readonly selected: number | null;
  /** The limits in effect now; null before their replay. */
  readonly inEffect: ShownCandidate | null;
  readonly onChoose: (candidate: number) => void;
}

export const goalCell = (meetsGoal: boolean) => (
  <span class={meetsGoal ? "allowed" : "denied"}>{meetsGoal ? "met" : "not met"}</span>
);

interface CandidateRow {
  /** Null for the limits in effect. */
  readonly index: number | null;
  readonly candidate: ShownCandidate;
}

export function CandidateTable({ advice, selected, inEffect, onChoose }: CandidateTableProps) {
  const name = useId();
  const { candidates, recommendation } = advice;
  const recommended = recommendation.kind === "recommended" ? recommendation.candidate : null;
  const rows: readonly CandidateRow[] = [
    ...(inEffect === null ? [] : [{ index: null, candidate: inEffect }]),
    ...candidates.map((candidate, index) => ({ index, candidate })),
  ];
  const columns: readonly Column<CandidateRow>[] = [
    {
      title: "Limit",
      cell: (row) => limitCell(row, { name, selected, recommended, onChoose }),
    },
    {
      title: "Denied requests",
      cell: ({ candidate: { deniedShare } }) => shareEstimateText(deniedShare),
      sortBy: ({ candidate: { deniedShare } }) => deniedShare.value,
      isNumber: true,
    },
    {
      title: "Denied keys",
      cell: ({ candidate: { deniedKeyShare } }) => shareEstimateText(deniedKeyShare),
      sortBy: ({ candidate: { deniedKeyShare } }) => deniedKeyShare.value,
      isNumber: true,
    },
    {
      title: "Denied keys of 10+ requests",
      cell: ({ candidate: { deniedActiveKeyShare: share } }) => (share === null ? "–" : shareEstimateText(share)),
      sortBy: ({ candidate: { deniedActiveKeyShare: share } }) => share?.value ?? 0,
      isNumber: true,
    },
    {
      title: "Worst second",
      cell: ({ candidate: { worstBurst } }) => countEstimateText(worstBurst),
      sortBy: ({ candidate: { worstBurst } }) => worstBurst.value,
      isNumber: true,
    },
    {
      title: "Goal",
      cell: ({ candidate: { meetsGoal } }) => goalCell(meetsGoal),
    },
  ];
  return (
    <div class="candidates">
      <Table caption="Candidates" columns={columns} rows={rows} keyOf={({ index }) => index ?? "now"} />
    </div>
  );
}

interface CandidateChoice {
  /** The name of the group of radio buttons. */
  readonly name: string;
  readonly selected: number | null;
  readonly recommended: number | null;
  readonly onChoose: (candidate: number) => void;
}

function limitCell({ index, candidate: { limits } }: CandidateRow, choice: CandidateChoice) {
  const line = limitsLine(limits);
  if (index === null) return <>In effect now: {line}</>;
  return (
    <label class="pick">
      <input
        type="radio"
        name={choice.name}
        checked={index === choice.selected}
        onChange={() => choice.onChoose(index)}
      />
      <span>
        {line} {index === choice.recommended && <span class="badge allowed">recommended</span>}
      </span>
    </label>
  );
}
