import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactElement,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type WheelEvent,
} from 'react';
import { VList, type VListHandle } from 'virtua';

interface Props<T> {
  items: readonly T[];
  /** Changes whenever the items did. */
  version: number;
  /** Changes in the render that puts items before the others. */
  prepends?: number;
  render: (item: T, index: number) => ReactElement;
  onTop?: () => void;
  /** The item to begin at, instead of the end. */
  startAt?: number;
  role?: string;
  label: string;
  className?: string;
}

/** How near the end counts as the end, in pixels. */
const nearEnd = 24;
const nearTop = 400;

/**
 * A virtual list that follows its end. Following is the reader's will, not a
 * distance: scrolling up leaves it, reaching the end, End or the pill takes it up.
 */
export function FollowList<T>({
  items,
  version,
  prepends = 0,
  render,
  onTop,
  startAt,
  role,
  label,
  className,
}: Props<T>) {
  const list = useRef<VListHandle>(null);
  const following = useRef(startAt === undefined);
  const lastPrepends = useRef(prepends);
  const [left, setLeft] = useState<number | null>(startAt === undefined ? null : items.length);
  const shift = prepends !== lastPrepends.current;

  // virtua wants a new identity when the content changed, and reads by index.
  // biome-ignore lint/correctness/useExhaustiveDependencies: version stands for the content
  const data = useMemo(() => ({ length: items.length }) as ArrayLike<undefined>, [items, items.length, version]);

  const toEnd = () => {
    if (items.length > 0) list.current?.scrollToIndex(items.length - 1, { align: 'end' });
  };
  const follow = () => {
    following.current = true;
    setLeft(null);
    toEnd();
  };
  const leave = () => {
    if (!following.current) return;
    following.current = false;
    setLeft(items.length);
  };
  const atEnd = () => {
    const view = list.current;
    return !view || view.scrollSize - view.scrollOffset - view.viewportSize <= nearEnd;
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: runs after each change of the content
  useLayoutEffect(() => {
    lastPrepends.current = prepends;
    if (following.current) toEnd();
  }, [version, items.length]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: only where to begin
  useLayoutEffect(() => {
    if (startAt !== undefined) list.current?.scrollToIndex(startAt, { align: 'start' });
  }, []);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return;
    if (event.key === 'End') {
      event.preventDefault();
      follow();
    } else if (event.key === 'Home') {
      event.preventDefault();
      leave();
      list.current?.scrollToIndex(0);
    } else if (event.key === 'PageUp' || event.key === 'ArrowUp') {
      leave();
    }
  };
  const onPointerDown = (event: PointerEvent<HTMLElement>) => {
    // A press beside the content is one on the scrollbar.
    if (event.target === event.currentTarget && event.nativeEvent.offsetX >= event.currentTarget.clientWidth) leave();
  };
  const fresh = left === null ? 0 : items.length - left;

  return (
    <div className={`follow ${className ?? ''}`}>
      <VList
        ref={list}
        data={data}
        shift={shift}
        role={role}
        aria-label={label}
        tabIndex={0}
        className="follow-scroll"
        onWheel={(event: WheelEvent) => {
          if (event.deltaY < 0) leave();
        }}
        onTouchMove={leave}
        onKeyDown={onKeyDown}
        onPointerDown={onPointerDown}
        onScroll={(offset) => {
          if (offset < nearTop && !following.current) onTop?.();
        }}
        onScrollEnd={() => {
          if (!following.current && atEnd()) follow();
        }}
        onResize={() => {
          if (following.current) toEnd();
        }}
      >
        {(_: undefined, index: number) => {
          const item = items[index];
          return item === undefined ? <span /> : render(item, index);
        }}
      </VList>
      {left !== null && (
        <button type="button" className="pill" onClick={follow}>
          {fresh > 0 ? `${fresh} new ↓` : 'Latest ↓'}
        </button>
      )}
    </div>
  );
}
