/** `npm run what-if`: prints what limits would have denied in the traffic of a log, or of a deployment's samples. */
import { replay, replayProblem } from "../replay/replay.ts";
import { CommandError, parseCommandLine, runCommand } from "../../cli/command.ts";
import { limitOptions, type LimitSet, rejectSlots, writtenLimitSets } from "./limit-sets.ts";
import { Progress, readTraffic } from "./input.ts";
import { printReport } from "./report-text.ts";
import { trafficChoice, trafficOptions } from "./input-options.ts";
import { type ReplayedSet, whatIfFacts, whatIfLines } from "./what-if-report.ts";

const values = parseCommandLine({ ...limitOptions, ...trafficOptions });

await runCommand(async () => {
  const written = writtenLimitSets(values);
  const choice = trafficChoice(values);
  if (choice.kind === "log") rejectSlots(written);
  const progress = new Progress();
  const traffic = await readTraffic(choice, values, progress);
  const { timelines, policy } = traffic;
  const sets: LimitSet[] = policy === null ? written : [{ label: "now", limits: policy.limits }, ...written];
  const limits = sets.map((set) => set.limits);
  const problem = limits.map((each) => replayProblem(timelines, each)).find((each) => each !== null);
  if (problem !== undefined) throw new CommandError(problem);
  const first = progress.finish("Replaying without retries", replay(timelines, limits));
  const again = progress.finish("Replaying with retries", replay(timelines, limits, { retry: "obey" }));
  const replayed = sets.map((set, index): ReplayedSet => {
    const [withoutRetries, withRetries] = [first[index], again[index]];
    if (withoutRetries === undefined || withRetries === undefined) throw new Error("no result");
    return { ...set, withoutRetries, withRetries };
  });
  printReport(values.json === true ? whatIfFacts(traffic, replayed) : whatIfLines(traffic, replayed));
});
