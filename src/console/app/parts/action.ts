/** Runs the action of a form or a button, and keeps why the last run failed. */
import { useState } from "preact/hooks";
import { errorOf } from "../api/client.ts";

export function useAction(act: () => Promise<unknown>) {
  const [isRunning, setIsRunning] = useState(false);
  const [problem, setProblem] = useState<Error | null>(null);
  const run = async (): Promise<void> => {
    setIsRunning(true);
    setProblem(null);
    try {
      await act();
    } catch (error) {
      setProblem(errorOf(error));
    } finally {
      setIsRunning(false);
    }
  };
  return { run, isRunning, problem };
}
