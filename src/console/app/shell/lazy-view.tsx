/** Views are loaded when they are first shown, so that the first one appears early. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, Loading } from "../parts/notice.tsx";

type Load = () => Promise<ComponentType>;

/** @param what the text of the loading state, such as "the keys" */
export function lazyView(what: string, load: Load): ComponentType {
  let loaded: ComponentType | null = null;
  return function LazyView() {
    const [, setIsLoaded] = useState(loaded !== null);
    const [failure, setFailure] = useState<Error | null>(null);
    useEffect(() => {
      if (loaded !== null) return;
      load()
        .then((view) => {
          loaded = view;
          return setIsLoaded(true);
        })
        .catch(setFailure);
    }, []);
    if (loaded !== null) {
      const View = loaded;
      return <View />;
    }
    if (failure === null) return <Loading what={what} />;
    // A new deployment has replaced the files of this page, or the connection is lost.
    return <Failure problem={new Error(`The page cannot load ${what}.`)} onRetry={() => location.reload()} />;
  };
}
