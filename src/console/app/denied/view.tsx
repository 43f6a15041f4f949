/** The view "Denied": why a request was denied in the last 24 hours, from the log of denials. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { FoundDenials } from "../../../admin/wire.ts";
import { usePolled } from "../api/poll.ts";
import { now } from "../clock.ts";
import { useAction } from "../parts/action.ts";
import { Input, SelectField } from "../parts/fields.tsx";
import { readPolicies } from "../parts/policies.tsx";
import { durationText, timeText } from "../parts/text.ts";
import { hrefOf, replaceQuery, route } from "../shell/route.ts";
import "./denied.css";
import { Log, Off, periodIn } from "./log.tsx";
import { completenessText, denialsOfKeyText, denialText, findDenial, searchEndMs, selectionOf } from "./search.ts";

const policiesPauseMs = 60_000;
const againAfterMs = 2_000;

/** One denial as the answer, and the list of all denials of its key. Without a search, the list has all denials. */
export function DeniedView() {
  const search = useSearch();
  const { found } = search;
  // A search that has sought no key, or several, has nothing to list.
  const hasList = found === null || (found.isOn && selectionOf(found) !== null);
  return (
    <section class="denied-view">
      <h1>Denied</h1>
      <section class="card" aria-labelledby="why-title">
        <h2 id="why-title">Why was it denied?</h2>
        <SearchForm {...search} />
        <div role="status">{found !== null && <Answer {...search} found={found} />}</div>
      </section>
      {hasList && <Log />}
    </section>
  );
}

interface DenialSearch {
  readonly text: string;
  readonly policy: string | undefined;
  /** The denial nearest to this instant is sought. Undefined for the newest. */
  readonly at: string | undefined;
  /** Until when the search is repeated if it has found nothing. */
  readonly endMs: number;
}

type Searching = ReturnType<typeof useSearch>;

/** The search that the form or the address of the page names. Plain keys stay out of the address. */
function useSearch() {
  const { query } = route.value;
  const named = query.get("instance") ?? query.get("id") ?? "";
  const [typed, setTyped] = useState(named);
  const [age, setAge] = useState("");
  const [search, setSearch] = useState<DenialSearch | null>(null);
  const [found, setFound] = useState<FoundDenials | null>(null);
  const current = useRef<DenialSearch | null>(null);
  /** The part of the address that the search is about. */
  const selected = useRef("");
  const select = (selection: ReturnType<typeof selectionOf>): void => {
    selected.current = selection?.instance ?? selection?.id ?? "";
    replaceQuery({ instance: "", id: "", ...selection });
  };
  const { run, isRunning, problem } = useAction(async () => {
    if (search === null) return;
    const result = await findDenial(search.text, search);
    if (current.current !== search) return;
    setFound(result);
    select(selectionOf(result));
  });
  const start = (text: string, policy = query.get("policy") ?? "", chosenAge = age): void => {
    const at = soughtAt(chosenAge);
    const next = { text, policy: policy === "" ? undefined : policy, at, endMs: searchEndMs(now(), at) };
    setSearch(text === "" ? null : next);
    if (text === "") select(null);
  };
  useEffect(() => {
    current.current = search;
    setFound(null);
    void run();
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- only another search starts again
  }, [search]);
  useEffect(() => {
    if (named === selected.current) return;
    selected.current = named;
    setTyped(named);
    start(named);
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- a link within the view names another key
  }, [named]);
  const isWaiting = search !== null && problem === null && now() < search.endMs;
  useEffect(() => {
    if (found === null || found.denial !== null || !found.isOn || !isWaiting) return undefined;
    const timer = setTimeout(() => void run(), againAfterMs);
    return () => clearTimeout(timer);
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- each result without a denial starts the next search
  }, [found]);
  const shownProblem = search === null ? null : problem;
  return { typed, setTyped, age, setAge, start, search, found, isRunning, problem: shownProblem, isWaiting };
}

function SearchForm({ typed, setTyped, age, setAge, start, found, isRunning, problem }: Searching) {
  const { value } = usePolled(readPolicies, policiesPauseMs);
  const problemId = useId();
  const policy = route.value.query.get("policy") ?? "";
  const known = (value.value ?? []).map(({ name }) => name);
  const text = typed.trim();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    replaceQuery({ cursor: "" });
    start(text);
  };
  const choosePolicy = (chosen: string): void => {
    replaceQuery({ policy: chosen, cursor: "" });
    if (text !== "") start(text, chosen);
  };
  const chooseAge = (chosen: string): void => {
    setAge(chosen);
    if (text !== "") start(text, policy, chosen);
  };
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
        <SelectField label="When" value={age} options={ages} onChange={chooseAge} />
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
const ages = [
  ["", "Latest denial"],
  ...[5, 10, 30, 60, 180, 720].map((minutes) => [`${minutes}`, `${durationText(minutes * minuteMs)} ago`] as const),
] as const;

/** The instant whose nearest denial is sought: the chosen one, else the middle of the period in the address of the page. */
function soughtAt(age: string): string | undefined {
  if (age !== "") return new Date(now() - Number(age) * minuteMs).toISOString();
  const [from, to] = periodIn(route.value.query);
  if (from === undefined || to === undefined) return undefined;
  return new Date((Date.parse(from) + Date.parse(to)) / 2).toISOString();
}

type FoundProps = Pick<Searching, "search" | "start" | "isWaiting"> & { readonly found: FoundDenials };

function Answer({ found, search, start, isWaiting }: FoundProps) {
  const { denial, isOn } = found;
  if (!isOn) return <Off />;
  if (denial === null) {
    if (search === null) return null;
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
  return (
    <p class="answer">
      <strong>
        Denied by <a href={hrefOf("policies", { name: policy })}>{policy}</a> {denialText(denial, now())}
      </strong>{" "}
      {denialsOfKeyText(found)} {id !== null && <a href={hrefOf("keys", { policy, id })}>Show the key</a>}
    </p>
  );
}
