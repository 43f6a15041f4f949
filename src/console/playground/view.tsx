/** The view "Playground": limits and traffic on one side, what each strategy makes of them on the other. */
import { computed } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import "./playground.css";
import { followUrl, openPreset, scenarioText, urlProblems } from "./page-state.ts";
import { presets } from "./model/presets.ts";
import { Results } from "./results.tsx";
import { runChanges } from "./runner.ts";
import { parseScenario, formatScenario } from "./model/scenario-query.ts";
import { Settings } from "./settings/settings.tsx";

export function PlaygroundView() {
  useEffect(() => {
    const stops = [followUrl(), runChanges()];
    return () => {
      for (const stop of stops) stop();
    };
  }, []);
  const parts = useShownParts(4);
  return (
    <div class="pg">
      <h1>Playground</h1>
      <p class="pg-intro">
        Choose limits and traffic, and see what every strategy allows. The engine that enforces your limits decides each
        request, here in your browser.
      </p>
      {parts > 1 && <Presets />}
      <UrlProblems />
      <div class="pg-columns">
        {parts > 2 && <Settings />}
        {parts > 3 && <Results />}
      </div>
    </div>
  );
}

/** The number of parts to render: one more after each frame, because all at once would be one long task. */
function useShownParts(most: number): number {
  const [shown, setShown] = useState(1);
  useEffect(() => {
    if (shown < most) setShown(shown + 1);
  }, [shown, most]);
  return shown;
}

const presetTexts = computed(() =>
  presets.map((preset) => ({
    ...preset,
    written: formatScenario(parseScenario(preset.query).scenario),
  })),
);

function Presets() {
  const current = presetTexts.value.find(({ written }) => written === scenarioText.value);
  return (
    <section class="pg-presets" aria-label="Examples">
      <div class="row">
        {presetTexts.value.map(({ id, title, query, written }) => (
          <button
            key={id}
            type="button"
            aria-pressed={written === scenarioText.value}
            onClick={() => openPreset(query)}
          >
            {title}
          </button>
        ))}
      </div>
      <p class="pg-preset-text">{current?.text ?? "Your own scenario."}</p>
    </section>
  );
}

function UrlProblems() {
  const problems = urlProblems.value;
  if (problems.length === 0) return null;
  return (
    <div class="card problem" role="alert">
      <p>Parts of the link are not valid. Their defaults are shown instead.</p>
      <ul>
        {problems.map((problem) => (
          <li key={problem}>{problem}</li>
        ))}
      </ul>
      <button type="button" onClick={() => (urlProblems.value = [])}>
        Dismiss
      </button>
    </div>
  );
}
