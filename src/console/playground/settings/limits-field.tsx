/** The limits as text, one per line, and the strategies that are compared. */
import { useId, useState } from "preact/hooks";
import { defaultStrategy, describeProblem, type LimitInput } from "../../../strategies/index.ts";
import { laneTitle } from "../lanes/lane-text.ts";
import { windowNotesOf, withAlign } from "../model/lanes.ts";
import { parseScenario, textOfLimit } from "../model/scenario-query.ts";
import { changeScenario, laneNames, limitsLabel, scenario, shownLanes, useValidity } from "../page-state.ts";

const linesOf = (text: string): string[] => text.split("\n").filter((line) => line.trim() !== "");

/** The limits of a text, and its problems, one line each. */
function readLimits(text: string) {
  const query = new URLSearchParams(linesOf(text).map((line) => ["limit", line]));
  const { scenario: read, problems } = parseScenario(query.toString());
  const lines = problems.map(describeProblem);
  return { limits: read.limits, problems: query.size === 0 ? [acceptedText] : lines };
}

const acceptedText = "Expected a limit such as 100/minute, or 10/second token-bucket burst=30.";

export function LimitsField() {
  const id = useId();
  const [text, setText] = useState(textOfLimits(scenario.value.limits));
  const { problems } = readLimits(text);
  useValidity(limitsLabel, problems.length === 0);
  const change = (typed: string): void => {
    setText(typed);
    const read = readLimits(typed);
    if (read.problems.length === 0) changeScenario({ limits: read.limits });
  };
  return (
    <div class="pg-limits">
      <label for={id}>{limitsLabel}</label>
      <textarea
        id={id}
        rows={Math.max(2, text.split("\n").length)}
        value={text}
        spellcheck={false}
        aria-invalid={problems.length > 0}
        aria-describedby={`${id}-hint ${id}-problem`}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <div id={`${id}-problem`} class="problem" role="alert">
        {problems.map((problem) => (
          <p key={problem}>{problem}</p>
        ))}
      </div>
      <p id={`${id}-hint`} class="hint">
        Such as <code>100/minute fixed-window</code> or <code>10/s token-bucket burst=30</code>. Several limits are
        decided together.
      </p>
      <WindowNotes onChange={(limits) => change(textOfLimits(limits))} />
    </div>
  );
}

const textOfLimits = (limits: readonly LimitInput[]): string => limits.map(textOfLimit).join("\n");

interface WindowNotesProps {
  readonly onChange: (limits: readonly LimitInput[]) => void;
}

/** Notes on where the windows of each limit start, which decides how much can pass around their ends. */
function WindowNotes({ onChange }: WindowNotesProps) {
  const { limits } = scenario.value;
  return windowNotesOf(limits).map((note, index) => {
    const limit = limits[index];
    if (note === null || limit === undefined) return null;
    const { text, other } = note;
    return (
      <p key={index} class="hint">
        {limits.length > 1 && <code>{textOfLimit(limit)}: </code>}
        {text}{" "}
        {other !== null && (
          <button type="button" class="pg-small" onClick={() => onChange(withAlign(limits, index, other))}>
            Use align={other}
          </button>
        )}
      </p>
    );
  });
}

/**
 * Selects the lanes to show, at least one. A strategy that all limits have is not offered, because the lane of the
 * limits as written shows it.
 */
export function LaneChoice() {
  const shown = shownLanes.value;
  const same = new Set(scenario.value.limits.map(({ strategy }) => strategy ?? defaultStrategy));
  const offered = laneNames.filter((lane) => same.size > 1 || !same.has(lane));
  const toggle = (lane: string): void => {
    const next = laneNames.filter((each) => (each === lane ? !shown.includes(lane) : shown.includes(each)));
    if (next.length > 0) shownLanes.value = next;
  };
  return (
    <fieldset class="pg-lane-choice">
      <legend>Compare</legend>
      {offered.map((lane) => (
        <label key={lane}>
          <input
            type="checkbox"
            checked={shown.includes(lane)}
            disabled={shown.length === 1 && shown.includes(lane)}
            onChange={() => toggle(lane)}
          />{" "}
          {laneTitle(lane)}
        </label>
      ))}
    </fieldset>
  );
}
