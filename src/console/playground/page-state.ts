/** The state of the playground: the scenario, and the view of its lanes. The URL has all of it, except a pasted log. */
import { batch, computed, effect, signal, untracked } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { type ConfigProblem, describeProblem, strategyNames } from "../../strategies/index.ts";
import { changeSearch, route } from "../app/shell/route.ts";
import { writtenLane } from "./model/lanes.ts";
import { presets } from "./model/presets.ts";
import { formatScenario, parseScenario, readField, type Report } from "./model/scenario-query.ts";
import { type Scenario, scenarioFields } from "./model/scenario.ts";

/** From the start of the scenario. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

export const laneNames: readonly string[] = [writtenLane, ...strategyNames];

export const scenario = signal<Scenario>(parseScenario(presets[0]?.query ?? "").scenario);
export const logText = signal<string | null>(null);
export const shownLanes = signal<readonly string[]>(laneNames);
/** Null for the whole run. */
export const zoom = signal<Span | null>(null);
/** The instant at which all lanes are explained; null before the user chose one. */
export const cursorMs = signal<number | null>(null);
/** The client whose remaining units are shown; null for the one that is denied most. */
export const followed = signal<string | null>(null);
export const chosenDenial = signal<{ readonly lane: string; readonly row: number } | null>(null);
export const markedLanes = signal<readonly string[]>([]);
/** Messages about problems with the opened URL, one line each. */
export const urlProblems = signal<readonly string[]>([]);
/** The labels of fields whose text has a problem. The scenario keeps their last valid values. */
export const invalidFields = signal<readonly string[]>([]);
export const limitsLabel = "Limits, one per line";
/** Grows when a URL or a preset replaces everything, so that fields forget what was typed. */
export const loads = signal(0);

const viewFields = ["show", "worst", "from", "to", "cursor", "client"] as const;

/** The query of the scenario alone, without the view. It is compared with the presets. */
export const scenarioText = computed(() => formatScenario(scenario.value));

/** The form of an instant in the URL, counted from the start. */
const instant = scenarioFields.firstMs;

const timeText = (atMs: number | null = null): string | null => (atMs === null ? null : instant.write(atMs));

const search = computed(() => {
  const own = {
    show: shownLanes.value.length === laneNames.length ? null : shownLanes.value.join(","),
    worst: markedLanes.value.length === 0 ? null : markedLanes.value.join(","),
    from: timeText(zoom.value?.fromMs),
    to: timeText(zoom.value?.toMs),
    cursor: timeText(cursorMs.value),
    client: followed.value,
  } satisfies Record<(typeof viewFields)[number], string | null>;
  const written = Object.entries(own).flatMap(([name, text]) => (text === null ? [] : [[name, text]]));
  const text = new URLSearchParams(written).toString().replaceAll("%2C", ",");
  return text === "" ? scenarioText.value : `${scenarioText.value}&${text}`;
});

/** Shows what a query describes. Fields with problems get their defaults. */
function load(query: string): void {
  const text = query === "" ? (presets[0]?.query ?? "") : query;
  const read = parseScenario(text, viewFields);
  const problems: ConfigProblem[] = [...read.problems];
  const report: Report = (variable, value, accepted) => problems.push({ variable, field: "", value, accepted });
  const fields = new URLSearchParams(text);
  const lanes = (name: string, absent: readonly string[]): readonly string[] => {
    const names = fields.get(name)?.split(",");
    if (names === undefined) return absent;
    const known = laneNames.filter((lane) => names.includes(lane));
    if (known.length === names.length) return known;
    report(name, names.join(","), acceptedLanes);
    return known.length === 0 ? absent : known;
  };
  const time = (name: string): number | null => readField(fields, name, instant, report);
  const [fromMs, toMs] = [time("from"), time("to")];
  batch(() => {
    scenario.value = read.scenario;
    shownLanes.value = lanes("show", laneNames);
    markedLanes.value = lanes("worst", []);
    zoom.value = fromMs !== null && toMs !== null && fromMs < toMs ? { fromMs, toMs } : null;
    cursorMs.value = time("cursor");
    followed.value = fields.get("client");
    chosenDenial.value = null;
    urlProblems.value = problems.map(describeProblem);
    loads.value++;
  });
}

const acceptedLanes = `some of ${laneNames.join(", ")}, separated by commas`;

/** Explains all lanes at an instant. This ends the explanation of a denial. */
export function moveCursor(toMs: number): void {
  batch(() => {
    cursorMs.value = toMs;
    chosenDenial.value = null;
  });
}

/** Replaces the scenario and the view by a preset, with a new entry in the browser's history. */
export const openPreset = (query: string): void => changeSearch(query, { isNewEntry: true });

/** Changes the scenario. This removes the marks of the earlier run, which mean nothing in the next one. */
export function changeScenario(change: Partial<Scenario>): void {
  const { traffic } = scenario.value;
  batch(() => {
    scenario.value = { ...scenario.value, ...change };
    zoom.value = null;
    chosenDenial.value = null;
    if (scenario.value.traffic !== traffic) cursorMs.value = null;
  });
}

/** While the text of a field is invalid, marks the results as those of earlier values. */
export function useValidity(label: string, isValid: boolean): void {
  useLayoutEffect(() => {
    if (isValid) return undefined;
    invalidFields.value = [...invalidFields.value, label];
    return () => {
      invalidFields.value = invalidFields.value.filter((each) => each !== label);
    };
  }, [label, isValid]);
}

/** Replaces the log. The chosen span and instants are removed, because they mean nothing in another log. */
export function changeLog(text: string | null): void {
  batch(() => {
    logText.value = text;
    zoom.value = null;
    cursorMs.value = null;
    chosenDenial.value = null;
  });
}

/** Sliders change the state many times a second, and browsers limit how often a page may change its URL. */
const pauseMs = 250;

/** Keeps state and URL equal until the returned function is called. */
export function followUrl(): () => void {
  let current: string | null = null;
  let timer = 0;
  const stopReading = effect(() => {
    const query = route.value.query.toString();
    if (query !== current) untracked(() => load(query));
    current = query;
  });
  let isFirst = true;
  const stopWriting = effect(() => {
    const text = search.value;
    clearTimeout(timer);
    if (!isFirst) timer = setTimeout(() => write(text), pauseMs);
    isFirst = false;
  });
  const write = (text: string): void => {
    // The opened URL may be equivalent without having the same text.
    current = new URLSearchParams(text).toString();
    if (text !== location.search.slice(1)) changeSearch(text, { isNewEntry: false });
  };
  return () => {
    clearTimeout(timer);
    stopReading();
    stopWriting();
  };
}
