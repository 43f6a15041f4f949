/** The view "Denied": why a request was denied in the last 24 hours, from the log of denials. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { FoundDenials } from "../../../admin/wire.ts";
import { queryText } from "../api/client.ts";
import { usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import { useAction } from "../parts/action.ts";
import { Input, SelectField } from "../parts/fields.tsx";
import { readPolicies } from "../parts/policies.tsx";
import { durationText, shortId, shortInstantText, timeText } from "../parts/text.ts";
import { hrefOf, navigate, type Query, replaceQuery, route } from "../shell/route.ts";
import { keyName } from "../keys/known-keys.ts";
import "./denied.css";
import { Log, Off, periodIn } from "./log.tsx";
import {
  choicesOf,
  completenessText,
  denialsOfKeyText,
  denialText,
  findDenial,
  isFar,
  nearText,
  searchEndMs,
  selectionOf,
} from "./search.ts";

const policiesPauseMs = 60_000;
const againAfterMs = 2_000;

/** One denial as the answer, and the list of the denials of its key around it. Without a search, the list has all denials. */
export function DeniedView() {
  const search = useSearch();
  const { found, isPending, refresh } = search;
  // A search that has sought no key, or several, has nothing to list.
  const hasList = found === null ? !isPending : found.isOn && selectionOf(found) !== null;
  return (
    <section class="denied-view">
      <h1>Denied</h1>
      <section class="card" aria-labelledby="why-title">
        <h2 id="why-title">Why was it denied?</h2>
        <SearchForm {...search} />
        <div role="status">{found !== null && <Answer {...search} found={found} />}</div>
      </section>
      {hasList && <Log found={found} refresh={refresh} />}
    </section>
  );
}

/** The operator's choice beside the text: the parameters `policy` and `at` of the address. */
interface Choice {
  readonly policy: string | undefined;
  /** The denial nearest to this instant is sought. Undefined for the newest. */
  readonly at: string | undefined;
}

interface DenialSearch extends Choice {
  readonly text: string;
  /** `at`, or the middle of the period in the address. */
  readonly soughtAt: string | undefined;
  /** Until when the search is repeated if it has found nothing. */
  readonly endMs: number;
  /** Whether the form has started it, so that its result is a new entry in the history. */
  readonly isTyped: boolean;
}

type Searching = ReturnType<typeof useSearch>;

/** The search that the form or the address of the page names. Plain keys stay out of the address. */
function useSearch() {
  const { query } = route.value;
  const [typed, setTyped] = useState(namedIn(query));
  const [choice, setChoice] = useState<Choice>(choiceIn(query));
  const [search, setSearch] = useState<DenialSearch | null>(() => searchOf(namedIn(query), choiceIn(query), false));
  const [found, setFound] = useState<FoundDenials | null>(null);
  const current = useRef<DenialSearch | null>(null);
  const answered = useRef<DenialSearch | null>(null);
  const { show, isOwn } = useOwnAddress();
  const { run, isRunning, problem } = useAction(async () => {
    if (search === null) return;
    const { text, policy, at, isTyped } = search;
    const result = await resultOf(search);
    if (current.current !== search) return;
    setFound(result);
    const isFirst = answered.current !== search;
    answered.current = search;
    const selection = choicesOf(result, text).length > 0 ? { id: text } : selectionOf(result);
    // A search that is repeated or that the address has started keeps the page of the list.
    const page = isTyped && isFirst ? {} : pageIn(route.value.query);
    show({ policy, at, ...page, ...selection }, isTyped && isFirst);
  });
  const start = (text: string, next: Choice = choice): void => {
    setChoice(next);
    setSearch(searchOf(text, next, true));
    if (text === "") show({ ...next }, true);
  };
  useEffect(() => {
    current.current = search;
    answered.current = null;
    setFound(null);
    void run();
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- only another search starts again
  }, [search]);
  useEffect(() => {
    if (isOwn()) return;
    setTyped(namedIn(query));
    setChoice(choiceIn(query));
    setSearch(searchOf(namedIn(query), choiceIn(query), false));
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- a link within the view, or Back, names another key
  }, [query]);
  const isWaiting = search !== null && problem === null && now() < search.endMs;
  useAgain(isWaiting && isWithoutAnswer(found, search.text) ? found : null, run);
  const shownProblem = search === null ? null : problem;
  const isPending = search !== null && shownProblem === null;
  return {
    typed,
    setTyped,
    choice,
    start,
    search,
    found,
    isRunning,
    problem: shownProblem,
    isPending,
    isWaiting,
    refresh: refreshOf(answered, setFound),
  };
}

const resultOf = ({ text, policy, soughtAt }: DenialSearch): Promise<FoundDenials> =>
  findDenial(text, { policy, at: soughtAt });

/**
 * Repeats the search that was answered, with each read of the list, so that the answer and the list are of the same moment.
 */
const refreshOf =
  (answered: { readonly current: DenialSearch | null }, setFound: (found: FoundDenials) => void) =>
  async (): Promise<void> => {
    const search = answered.current;
    if (search === null) return;
    const result = await resultOf(search);
    if (answered.current === search) setFound(result);
  };

/** The address of the page as the view itself has set it. Another address, of a link or of Back, starts another search. */
function useOwnAddress() {
  const shownRef = useRef(addressOf(route.value.query));
  const isOwn = (): boolean => {
    const before = shownRef.current;
    shownRef.current = addressOf(route.value.query);
    return shownRef.current === before;
  };
  const show = (changed: Query, isNewEntry: boolean): void => {
    const before = addressOf(route.value.query);
    const next = { ...Object.fromEntries(route.value.query), instance: "", id: "", cursor: "", newer: "", ...changed };
    shownRef.current = addressOf(new URLSearchParams(queryText(next)));
    if (isNewEntry && shownRef.current !== before) navigate("denied", next);
    else replaceQuery(next);
  };
  return { show, isOwn };
}

/** Runs a search again, some seconds after each result without an answer. */
function useAgain(result: FoundDenials | null, run: () => Promise<void>): void {
  useEffect(() => {
    if (result === null) return undefined;
    const timer = setTimeout(() => void run(), againAfterMs);
    return () => clearTimeout(timer);
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- each result without an answer starts the next search
  }, [result]);
}

const isWithoutAnswer = (found: FoundDenials | null, text: string): boolean =>
  found !== null && found.denial === null && found.isOn && choicesOf(found, text).length === 0;

const namedIn = (query: URLSearchParams): string => query.get("instance") ?? query.get("id") ?? "";

const choiceIn = (query: URLSearchParams): Choice => ({
  policy: query.get("policy") ?? undefined,
  at: query.get("at") ?? undefined,
});

/** The page of the list: that from a cursor on, or that of the denials newer than an instant. */
const pageIn = (query: URLSearchParams): Query => ({
  cursor: query.get("cursor") ?? "",
  newer: query.get("newer") ?? "",
});

/** The part of the address that names a search. */
const addressOf = (query: URLSearchParams): string =>
  ["instance", "id", "policy", "at", "from", "to"].map((name) => query.get(name) ?? "").join(" ");

function searchOf(text: string, choice: Choice, isTyped: boolean): DenialSearch | null {
  if (text === "") return null;
  const soughtAt = choice.at ?? middleOfPeriod();
  return { text, ...choice, soughtAt, endMs: searchEndMs(now(), soughtAt), isTyped };
}

/** The middle of the period in the address of the page. */
function middleOfPeriod(): string | undefined {
  const [from, to] = periodIn(route.value.query);
  if (from === undefined || to === undefined) return undefined;
  return new Date((Date.parse(from) + Date.parse(to)) / 2).toISOString();
}

function SearchForm({ typed, setTyped, choice, start, found, isRunning, problem }: Searching) {
  const { value } = usePolled(readPolicies, policiesPauseMs);
  const problemId = useId();
  const { policy = "", at = "" } = choice;
  const known = (value.value ?? []).map(({ name }) => name);
  const text = typed.trim();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    start(text);
  };
  const choosePolicy = (chosen: string): void => start(text, { ...choice, policy: chosen === "" ? undefined : chosen });
  const chooseTime = (chosen: string): void => start(text, { ...choice, at: instantOf(chosen) });
  return (
    <>
      <form class="why" onSubmit={submit} aria-describedby={problemId}>
        <Input
          label="Address, API key, id of a key, or instance of the response"
          isSearch
          value={typed}
          autocomplete="off"
          spellcheck={false}
          onInput={setTyped}
        />
        <SelectField
          label="Policy"
          value={policy}
          options={[["", "All policies"], ...new Set([...known, ...(policy === "" ? [] : [policy])])]}
          onChange={choosePolicy}
        />
        <SelectField label="When" value={at} options={timesOf(at)} onChange={chooseTime} />
        <button type="submit" class="primary" disabled={isRunning && found === null}>
          Find
        </button>
      </form>
      <p id={problemId} class="problem" role="alert">
        {problem?.message}
      </p>
    </>
  );
}

const minuteMs = 60_000;
const ages = [5, 10, 30, 60, 180, 720].map(
  (minutes) => [`${minutes}`, `${durationText(minutes * minuteMs)} ago`] as const,
);

/** The latest denial, times before now, and the instant in the address. */
function timesOf(at: string): readonly (readonly [value: string, text: string])[] {
  const latest = ["", middleOfPeriod() === undefined ? "Latest denial" : "In the chosen time"] as const;
  const isInstant = at !== "" && !Number.isNaN(Date.parse(at));
  const own = isInstant ? [[at, `At ${shortInstantText(at, now())}`] as const] : [];
  return [latest, ...own, ...ages];
}

/** The instant of an option: minutes before now, or an instant itself. */
function instantOf(option: string): string | undefined {
  if (option === "") return undefined;
  return /^\d+$/.test(option) ? new Date(now() - Number(option) * minuteMs).toISOString() : option;
}

type FoundProps = Pick<Searching, "search" | "start" | "isWaiting"> & { readonly found: FoundDenials };

function Answer({ found, search, start, isWaiting }: FoundProps) {
  const { denial, isOn } = found;
  if (!isOn) return <Off />;
  if (denial === null) {
    if (search === null) return null;
    const choices = choicesOf(found, search.text);
    if (choices.length > 0) return <Choices keys={choices} search={search} />;
    if (isWaiting) {
      return (
        <p>
          The log has no such denial yet. A report takes up to 30 s: this page looks again until{" "}
          {timeText(search.endMs)}.
        </p>
      );
    }
    return (
      <p>
        The log has no such denial. {completenessText(found)}{" "}
        <button type="button" onClick={() => start(search.text)}>
          Look again
        </button>
      </p>
    );
  }
  const { policy, id } = denial;
  const distance = nearText(found);
  return (
    <p class="answer">
      {isFar(found) && distance}
      <strong>
        Denied by <a href={hrefOf("policies", { name: policy })}>{policy}</a> {denialText(denial, now())}
      </strong>{" "}
      {!isFar(found) && distance}
      {denialsOfKeyText(found)} {id !== null && <a href={hrefOf("keys", { policy, id })}>Show the key</a>}
    </p>
  );
}

interface ChoicesProps {
  readonly keys: FoundDenials["keys"];
  readonly search: DenialSearch;
}

const Choices = ({ keys, search: { text, at } }: ChoicesProps) => (
  <>
    <p>The ids of several keys begin with {text}. Choose one:</p>
    <ul class="choices">
      {keys.map(({ policy, id }) => (
        <li key={`${policy} ${id}`}>
          {policy}:{" "}
          <a class="id" href={hrefOf("denied", { policy, id, at })}>
            {keyName(policy, id) === shortId(id) ? id : keyName(policy, id)}
          </a>
        </li>
      ))}
    </ul>
  </>
);
